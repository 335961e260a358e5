#include "qm/admission/forecast/arrivals.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::admission::forecast {

int Arrivals::add_class(Class one) {
  classes_.push_back(std::move(one));
  return static_cast<int>(classes_.size()) - 1;
}

void Arrivals::came(int of, Instant now) {
  QM_ASSERT(of >= 0 && static_cast<std::size_t>(of) < classes_.size(), "class {} of {}", of, classes_.size());
  QM_ASSERT(past_.empty() || past_.back().at <= now, "arrivals come in order");
  if (!since_) since_ = now;
  past_.push_back({now, of});
  while (past_.size() > settings_.kept) {
    since_ = past_.front().at;
    past_.pop_front();
  }
  while (now - past_.front().at > settings_.memory) past_.pop_front();
  since_ = std::max(*since_, now - settings_.memory);
}

Arrivals::Stream Arrivals::after(Instant now, double point) const {
  Stream out;
  if (past_.empty() || now <= *since_) return out;
  const Instant begin = std::max(*since_, now - settings_.memory);
  out.circle_ = now - begin;
  const Instant from = begin + Duration(static_cast<std::int64_t>(static_cast<double>(out.circle_.count()) * point));
  const auto next = std::ranges::upper_bound(past_, from, {}, &Arrival::at);
  out.past_ = &past_;
  out.shift_ = now - from;
  out.next_ = static_cast<std::size_t>(next - past_.begin());
  if (next == past_.end()) {
    out.next_ = 0;
    out.shift_ += out.circle_;
  }
  return out;
}

std::optional<Arrivals::Arrival> Arrivals::Stream::peek() const {
  if (past_ == nullptr) return {};
  const auto& [at, of] = (*past_)[next_];
  return Arrival{at + shift_, of};
}

void Arrivals::Stream::pop() {
  if (++next_ < past_->size()) return;
  next_ = 0;
  shift_ += circle_;
}

}  // namespace qm::admission::forecast
