#pragma once
#include <fmt/format.h>

#include <atomic>
#include <compare>
#include <concepts>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace qm {

/// A copy-on-write value: copies share one object, and a write creates a separate copy.
///
/// It reads like the value itself; the read-only members of a container are available under their own names, other
/// members through `->`. A default-constructed value needs no memory.
///
/// Order    by value, never by address.
/// Threads  different threads may use different copies; one Shared object has one writer.
/// Cost     one pointer; for all copies together the value and 8 bytes.
template <class T>
class Shared {
 public:
  Shared() = default;
  template <class U = T>
  requires(std::convertible_to<U, T> && !std::same_as<std::remove_cvref_t<U>, Shared>)  //
      Shared(U&& value) {
    T made(std::forward<U>(value));
    if (!(made == none())) block_ = new Block{{1}, false, std::move(made)};
  }
  Shared(const Shared& other) : block_(other.block_) {
    if (block_ != nullptr) block_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Shared(Shared&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Shared() { drop(); }

  [[nodiscard]] const T& operator*() const { return block_ == nullptr ? none() : block_->value; }
  [[nodiscard]] const T* operator->() const { return &**this; }
  operator const T&() const { return **this; }
  operator std::string_view() const requires std::same_as<T, std::string> { return **this; }

  /// Returns the value for writing; other copies do not change.
  T& edit() {
    if (block_ == nullptr || block_->refs.load(std::memory_order_acquire) != 1) {
      Shared own;
      own.block_ = new Block{{1}, false, **this};
      *this = std::move(own);
    }
    return block_->value;
  }
  void clear() { *this = Shared(); }

  [[nodiscard]] decltype(auto) value() const { return (**this).value(); }
  [[nodiscard]] bool empty() const { return (**this).empty(); }
  [[nodiscard]] auto size() const { return (**this).size(); }
  [[nodiscard]] auto begin() const requires requires(const T& value) { value.begin(); }
  { return (**this).begin(); }
  [[nodiscard]] auto end() const requires requires(const T& value) { value.end(); }
  { return (**this).end(); }
  [[nodiscard]] decltype(auto) front() const { return (**this).front(); }
  [[nodiscard]] decltype(auto) operator[](std::size_t i) const { return (**this)[i]; }
  template <class U = T, class Key = typename U::key_type>
  [[nodiscard]] auto find(const Key& key) const {
    return (**this).find(key);
  }
  template <class U = T, class Key = typename U::key_type>
  [[nodiscard]] bool contains(const Key& key) const {
    return (**this).contains(key);
  }
  template <class U = T, class Key = typename U::key_type>
  [[nodiscard]] decltype(auto) at(const Key& key) const {
    return (**this).at(key);
  }

  friend bool operator==(const Shared& a, const Shared& b) { return a.block_ == b.block_ || *a == *b; }
  friend auto operator<=>(const Shared& a, const Shared& b) requires std::three_way_comparable<T> {
    using Order = std::compare_three_way_result_t<T>;
    return a.block_ == b.block_ ? Order::equivalent : *a <=> *b;
  }
  template <class U>
  requires(!std::same_as<U, Shared>)  //
      friend bool
      operator==(const Shared& a, const U& b) {
    return *a == b;
  }

 private:
  template <class>
  friend class Pool;
  struct Block {
    std::atomic<std::uint32_t> refs{1};
    bool pooled = false;
    T value;
  };
  static const T& none() {
    static const T value{};
    return value;
  }
  void drop() {
    if (block_ != nullptr && block_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete block_;
  }

  Block* block_ = nullptr;
};

/// An optional that is mostly empty: like std::optional, but one pointer where it is empty. Copies share the value
/// as Shared does.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(std::nullopt_t) {}
  Rare(T value) : value_(std::optional<T>(std::move(value))) {}

  [[nodiscard]] bool has_value() const { return value_->has_value(); }
  explicit operator bool() const { return has_value(); }
  [[nodiscard]] const T& operator*() const { return **value_; }
  [[nodiscard]] const T* operator->() const { return &**this; }
  /// Requires a value.
  T& edit() { return *value_.edit(); }
  void reset() { value_.clear(); }
  friend bool operator==(const Rare&, const Rare&) = default;

 private:
  Shared<std::optional<T>> value_;
};

/// Interns values: equal values share one object.
///
/// Threads  one.
/// Cost     O(log values). Values without other users are released when the number of values is twice that after the
///          last release.
template <class T>
class Pool {
 public:
  void unite(Shared<T>& one) {
    if (one.block_ == nullptr || one.block_->pooled) return;
    const auto [it, fresh] = known_.insert(one);
    if (!fresh) {
      one = *it;
      return;
    }
    one.block_->pooled = true;
    if (known_.size() < sweep_at_) return;
    std::erase_if(known_, [](const Shared<T>& known) { return known.block_->refs == 1; });
    sweep_at_ = 2 * known_.size() + kLeast;
  }

 private:
  static constexpr std::size_t kLeast = 1024;
  std::set<Shared<T>> known_;
  std::size_t sweep_at_ = kLeast;
};

}  // namespace qm

template <class T>
struct fmt::formatter<qm::Shared<T>> : fmt::formatter<T> {
  template <class Context>
  auto format(const qm::Shared<T>& one, Context& ctx) const {
    return fmt::formatter<T>::format(*one, ctx);
  }
};
