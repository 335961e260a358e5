#include "qm/admission/kueue/tree.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::admission::kueue {

void add_to(Amounts& list, Cell at, std::int64_t amount) {
  const auto place = std::lower_bound(list.begin(), list.end(), at, [](const Amount& a, Cell c) { return a.at < c; });
  if (place != list.end() && place->at == at) {
    place->amount = plus(place->amount, amount);
  } else {
    list.insert(place, {at, amount});
  }
}

std::int64_t amount_at(const Amounts& list, Cell at) {
  const auto place = std::lower_bound(list.begin(), list.end(), at, [](const Amount& a, Cell c) { return a.at < c; });
  return place != list.end() && place->at == at ? place->amount : 0;
}

double Share::weighted() const {
  if (ratio == 0) return 0;
  return weight == 0 ? std::numeric_limits<double>::infinity() : ratio / weight;
}

int Share::compare(const Share& a, const Share& b) {
  const auto sign = [](double x, double y) { return x < y ? -1 : static_cast<int>(x > y); };
  const bool a_free = a.weight == 0 && a.ratio > 0, b_free = b.weight == 0 && b.ratio > 0;
  if (a_free && b_free) return sign(a.ratio, b.ratio);
  if (a_free || b_free) return a_free ? 1 : -1;
  return sign(a.weighted(), b.weighted());
}

Tree::Tree(std::vector<NodeSpec> nodes, std::vector<Resource> resource_of)
    : nodes_(std::move(nodes)), resource_of_(std::move(resource_of)) {
  for (const Resource r : resource_of_) resources_ = std::max(resources_, r + 1);
  children_.resize(nodes_.size());
  heights_.resize(nodes_.size());
  lendable_.resize(nodes_.size());
  held_.resize(nodes_.size() * resource_of_.size());
  for (Node n = 0; n < size(); ++n) {
    QM_ASSERT(parent(n) < n && (n == 0) == (parent(n) < 0), "node {} of the tree hangs on {}", n, parent(n));
    if (n > 0) children_[at(parent(n))].push_back(n);
    for (const auto& [c, quota] : nodes_[at(n)].quotas) {
      cell(n, c).own = quota;
      cell(n, c).offered = true;
    }
  }
  derive();
}

void Tree::set_quota(Node n, Cell c, const Quota& quota) {
  QM_ASSERT(cell(n, c).offered, "node {} has no quota of {} to be changed", n, c);
  std::vector<std::int64_t> of_queue(nodes_.size());
  for (Node i = 0; i < size(); ++i) of_queue[at(i)] = is_queue(i) ? used(i, c) : 0;
  for (Node i = 0; i < size(); ++i) cell(i, c).used = 0;
  cell(n, c).own = quota;
  derive();
  for (Node i = 0; i < size(); ++i) add(i, c, of_queue[at(i)]);
}

void Tree::derive() {
  for (Node n = size() - 1; n >= 0; --n) {
    if (n > 0) heights_[at(parent(n))] = std::max(heights_[at(parent(n))], heights_[at(n)] + 1);
    for (Cell c = 0; c < cells(); ++c) {
      auto& held = cell(n, c);
      held.subtree = held.own.nominal;
      for (const Node child : children(n)) {
        held.subtree = plus(held.subtree, minus(cell(child, c).subtree, cell(child, c).local));
        held.offered = held.offered || cell(child, c).offered;
      }
      held.local = held.own.lending_limit ? at_least_zero(minus(held.subtree, *held.own.lending_limit)) : 0;
    }
  }
  for (Node n = 0; n < size(); ++n) {
    lendable_[at(n)].assign(at(resources_), 0);
    for (Cell c = 0; c < cells(); ++c) {
      auto& held = cell(n, c);
      held.potential = n == 0 ? held.subtree : plus(held.local, potential(parent(n), c));
      if (n > 0 && held.own.borrowing_limit) {
        held.potential = std::min(held.potential, plus(held.subtree, *held.own.borrowing_limit));
      }
      auto& lendable = lendable_[at(n)][at(resource_of_[at(c)])];
      lendable = plus(lendable, held.potential);
    }
  }
}

std::int64_t Tree::local_available(Node n, Cell c) const {
  return at_least_zero(minus(cell(n, c).local, cell(n, c).used));
}

std::int64_t Tree::available_at(Node n, Cell c) const {
  const auto& held = cell(n, c);
  if (n == 0) return minus(held.subtree, held.used);
  std::int64_t above = available_at(parent(n), c);
  if (held.own.borrowing_limit) {
    const auto stored = minus(minus(held.subtree, held.local), at_least_zero(minus(held.used, held.local)));
    above = std::min(above, plus(stored, *held.own.borrowing_limit));
  }
  return plus(local_available(n, c), above);
}

std::int64_t Tree::available(Node n, Cell c) const {
  const auto left = available_at(n, c);
  return is_queue(n) ? at_least_zero(left) : left;
}

bool Tree::borrows_with(Node n, Cell c, std::int64_t amount) const {
  const auto& held = cell(n, c);
  return (is_queue(n) ? held.own.nominal : held.subtree) < plus(held.used, amount);
}

bool Tree::beyond_own(Node n, std::span<const Cell> any_of) const {
  return std::ranges::any_of(any_of, [&](Cell c) { return subtree(n, c) < used(n, c); });
}

bool Tree::fits(Node queue, const Amounts& amounts) const {
  return std::ranges::all_of(amounts, [&](const Amount& a) { return a.amount <= available(queue, a.at); });
}

Tree::Level Tree::level(Node queue, Cell c, std::int64_t amount) const {
  if (!borrows_with(queue, c, amount) || queue == 0) return {0, queue != 0};
  auto rest = minus(amount, local_available(queue, c));
  for (Node n = parent(queue);; n = parent(n)) {
    if (!borrows_with(n, c, rest)) return {heights_[at(n)], n != 0};
    if (n == 0) return {heights_[at(n)], false};
    rest = minus(rest, local_available(n, c));
  }
}

Share Tree::share(Node n) const {
  Share out;
  out.weight = nodes_[at(n)].weight;
  if (n == 0) return out;
  std::vector<std::int64_t> borrowed(at(resources_));
  for (Cell c = 0; c < cells(); ++c) {
    const auto more = minus(used(n, c), subtree(n, c));
    if (more <= 0 || !cell(n, c).offered) continue;
    out.borrowing = true;
    auto& sum = borrowed[at(resource_of_[at(c)])];
    sum = plus(sum, more);
  }
  if (!out.borrowing) return out;
  const auto& lendable = lendable_[at(parent(n))];
  for (std::size_t r = 0; r < borrowed.size(); ++r) {
    if (borrowed[r] == 0 || lendable[r] <= 0) continue;
    const auto ratio = static_cast<double>(borrowed[r]) * 1000 / static_cast<double>(lendable[r]);
    if (ratio <= out.ratio) continue;
    out.ratio = ratio;
    out.most = static_cast<Resource>(r);
  }
  return out;
}

void Tree::add(Node n, Cell c, std::int64_t amount) {
  const auto kept = local_available(n, c);
  auto& used = cell(n, c).used;
  used = plus(used, amount);
  if (n != 0 && amount > kept) add(parent(n), c, amount - kept);
}

void Tree::remove(Node n, Cell c, std::int64_t amount) {
  const auto stored = minus(cell(n, c).used, cell(n, c).local);
  auto& used = cell(n, c).used;
  used = minus(used, amount);
  if (n != 0 && stored > 0) remove(parent(n), c, std::min(amount, stored));
}

void Tree::add(Node n, const Amounts& amounts) {
  for (const auto& a : amounts) add(n, a.at, a.amount);
}
void Tree::remove(Node n, const Amounts& amounts) {
  for (const auto& a : amounts) remove(n, a.at, a.amount);
}

}  // namespace qm::admission::kueue
