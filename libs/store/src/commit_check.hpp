#pragma once
#include "qm/store/store.hpp"

namespace qm::store {

/// The checks of all carriers before a write: numbers that are not dense, and text that PostgreSQL cannot store.
/// One object per leadership; a refused batch is not written and the numbers do not change.
class CommitCheck {
 public:
  CommitCheck() = default;
  explicit CommitCheck(const Loaded& loaded)
      : journal_(loaded.journal_sequence), outbox_(loaded.outbox_sequence), intent_(loaded.intent_sequence) {}

  [[nodiscard]] Status check(const Commit& batch) const;
  void advance(const Commit& batch);

  [[nodiscard]] std::uint64_t journal() const { return journal_; }
  [[nodiscard]] std::uint64_t outbox() const { return outbox_; }
  [[nodiscard]] std::uint64_t intent() const { return intent_; }

 private:
  std::uint64_t journal_ = 0;
  std::uint64_t outbox_ = 0;
  std::uint64_t intent_ = 0;
};

/// Replies to requests are stored for this long, in domain time.
inline constexpr Duration kRequestLife = std::chrono::hours(24);

}  // namespace qm::store
