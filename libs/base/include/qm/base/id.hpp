#pragma once
#include <fmt/format.h>

#include <compare>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace qm {

/// A value whose type differs from others with the same representation:
/// `using NodeName = Named<struct NodeNameTag>;`
template <class Tag, class Rep = std::string>
class Named {
 public:
  using rep = Rep;
  Named() = default;
  explicit Named(Rep value) : value_(std::move(value)) {}
  explicit Named(std::string_view text) requires std::same_as<Rep, std::string> : value_(text) {}
  explicit Named(const char* text) requires std::same_as<Rep, std::string> : value_(text) {}

  [[nodiscard]] const Rep& value() const { return value_; }
  [[nodiscard]] bool empty() const requires std::same_as<Rep, std::string> { return value_.empty(); }
  friend auto operator<=>(const Named&, const Named&) = default;
  friend bool operator==(const Named&, const Named&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Named& id) { return out << id.value_; }

 private:
  Rep value_{};
};

}  // namespace qm

template <class Tag, class Rep>
struct std::hash<qm::Named<Tag, Rep>> {
  std::size_t operator()(const qm::Named<Tag, Rep>& id) const { return std::hash<Rep>{}(id.value()); }
};

template <class Tag, class Rep>
struct fmt::formatter<qm::Named<Tag, Rep>> : fmt::formatter<Rep> {
  template <class Context>
  auto format(const qm::Named<Tag, Rep>& id, Context& ctx) const {
    return fmt::formatter<Rep>::format(id.value(), ctx);
  }
};
