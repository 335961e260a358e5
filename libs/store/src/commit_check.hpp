#pragma once
#include "qm/store/store.hpp"

namespace qm::store {

/// What any carrier refuses before it writes: numbers that are not dense, and text that PostgreSQL cannot hold.
/// One object per leadership; the refused batch is not written and the numbers stay.
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

/// Answers to requests are kept this long, in domain time.
inline constexpr Duration kRequestLife = std::chrono::hours(24);

}  // namespace qm::store
