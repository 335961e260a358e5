#pragma once
#include "qm/service/host.hpp"

#include <cstddef>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::service {

/// The position in a partition: the content of a cursor row.
struct ReadPosition {
  std::int64_t next = 0;
  std::uint64_t mark = 0;  // stable_hash of the message before `next`
  store::HistoryPosition history{};
  store::LogAnchor anchor{};
};

/// Versions after a break of the producer's history are greater than all before it, both for host and engine.
inline std::uint64_t version_after(std::uint64_t breaks, std::uint64_t version) { return (breaks << 40) + version; }
inline std::uint64_t breaks_before(std::uint64_t version) { return version >> 40; }
/// Whether a key with this version was kept over the last of this number of breaks, and not published since.
inline bool is_kept(std::uint64_t version, std::uint64_t breaks) { return version <= version_after(breaks, 0); }

/// The purpose of a snapshot, which determines the treatment of keys that it omits.
enum class SnapshotUse {
  kGap,       // messages are missing: the keys were deleted
  kReplaces,  // another history: they start again at version 1, or are kept for some time (wire::last_state)
  kConfirms,  // some time after a break: keys that were kept, and that the owner has not published since, are deleted
};

/// The end of a snapshot.
struct SnapshotEnd {
  std::set<std::string> keys;  // keys of the owner, including deleted ones
  std::uint64_t breaks = 0;
  SnapshotUse use = SnapshotUse::kGap;
};

/// One pending input, with its metadata.
struct Pending {
  Input input;
  Host::ReplyFn done;
  std::optional<bus::TopicPartition> at;  // of a bus message
  ReadPosition read{};                    // after the bus message
  std::uint64_t term = 0;                 // term in which the bus message was read
  bool skip = false;     // of another shard, or lost by its producer's database: only its offset is used
  bool omitted = false;  // by a snapshot: the key is deleted
  bool kept = false;     // although a snapshot omits it: its version counts the break, without an input
  std::shared_ptr<const SnapshotEnd> snapshot_end = {};  // deletes the keys of topic input.name that it omits
  std::optional<Error> unreadable = {};                  // not an envelope: it becomes a dead letter without a codec
  // Its effects cannot be written (events.cpp): its caller gets this error, or it becomes a dead letter.
  std::optional<Error> refused = {};
  bool settled = false;              // the engine's own work that was due with it is committed
  bool dropped = false;              // its refusal cannot be written either: only its offset is committed
  std::optional<Error> denied = {};  // an unauthorized call: it is only recorded in the audit trail
};

/// The pending inputs in their order, bounded by number and by bytes. The owner's mutex guards it.
class Mailbox {
 public:
  Mailbox(std::size_t most, std::size_t most_bytes) : most_(most), most_bytes_(most_bytes) {}
  [[nodiscard]] bool full() const { return inputs_.size() >= most_ || bytes_ >= most_bytes_; }
  [[nodiscard]] bool empty() const { return inputs_.empty(); }
  [[nodiscard]] std::size_t size() const { return inputs_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Whether a caller waits for its reply.
  [[nodiscard]] bool has_request() const { return requests_ > 0; }
  /// Whether all inputs are of Urgency::kDeferred.
  [[nodiscard]] bool deferred() const { return urgent_ == 0; }
  /// The arrival of the oldest input that is or was here since the mailbox was empty.
  [[nodiscard]] SteadyInstant since() const { return since_; }
  /// Exceeds the bound unless the owner checks full() before.
  void push(Pending input) {
    if (inputs_.empty()) since_ = std::chrono::steady_clock::now();
    count(input.input, 1);
    inputs_.push_back(std::move(input));
  }
  /// Removes the first ones, at most this number and this many bytes, at least one.
  std::vector<Pending> take(std::size_t most, std::size_t most_bytes) {
    std::vector<Pending> out;
    for (std::size_t bytes = 0; !inputs_.empty() && out.size() < most && (out.empty() || bytes < most_bytes);) {
      bytes += inputs_.front().input.bytes.size();
      out.push_back(std::move(inputs_.front()));
      inputs_.pop_front();
      count(out.back().input, -1);
    }
    return out;
  }
  std::vector<Pending> take_all() { return take(inputs_.size(), most_bytes_ + bytes_); }

 private:
  void count(const Input& input, std::ptrdiff_t by) {
    bytes_ += static_cast<std::size_t>(by) * input.bytes.size();
    if (input.source == Source::kRequest) requests_ += static_cast<std::size_t>(by);
    if (input.urgency == Urgency::kNow) urgent_ += static_cast<std::size_t>(by);
  }

  std::size_t most_, most_bytes_, bytes_ = 0, requests_ = 0, urgent_ = 0;
  SteadyInstant since_{};
  std::deque<Pending> inputs_;
};

}  // namespace qm::service
