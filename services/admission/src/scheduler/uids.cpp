#include "scheduler/uids.hpp"

namespace qm::admission {

void Uids::put(int id, const Uid& uid) {
  auto& page = pages_[id / kPage];
  page.uids[static_cast<std::size_t>(id % kPage)] = uid;
  page.used |= std::uint64_t{1} << (id % kPage);
}

void Uids::erase(int id) {
  const auto page = pages_.find(id / kPage);
  page->second.uids[static_cast<std::size_t>(id % kPage)].clear();
  page->second.used &= ~(std::uint64_t{1} << (id % kPage));
  if (page->second.used == 0) pages_.erase(page);
}

const Uid* Uids::find(int id) const {
  const auto page = pages_.find(id / kPage);
  if (page == pages_.end() || (page->second.used >> (id % kPage) & 1) == 0) return nullptr;
  return &page->second.uids[static_cast<std::size_t>(id % kPage)];
}

}  // namespace qm::admission
