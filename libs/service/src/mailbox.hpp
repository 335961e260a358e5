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

/// How far a partition is read: what a cursor row holds.
struct ReadPosition {
  std::int64_t next = 0;
  std::uint64_t mark = 0;  // stable_hash of the message before `next`
  store::HistoryPosition history{};
  store::LogAnchor anchor{};
};

/// Versions after a break of the producer's history are greater than all before it, for host and engine alike.
inline std::uint64_t version_after(std::uint64_t breaks, std::uint64_t version) { return (breaks << 40) + version; }
inline std::uint64_t breaks_before(std::uint64_t version) { return version >> 40; }
/// Whether a key of this version was kept over the last of so many breaks, and not published since.
inline bool is_kept(std::uint64_t version, std::uint64_t breaks) { return version <= version_after(breaks, 0); }

/// What a snapshot was taken for, and so what becomes of the keys that it omits.
enum class SnapshotUse {
  kGap,       // messages are missing: they ended
  kReplaces,  // it is of another history: they start again at version 1, or are kept for some time (wire::last_state)
  kConfirms,  // some time after a break: those that were kept, and that the owner has not published since, ended
};

/// The end of a snapshot.
struct SnapshotEnd {
  std::set<std::string> keys;  // that the owner has, ended ones too
  std::uint64_t breaks = 0;
  SnapshotUse use = SnapshotUse::kGap;
};

/// One pending input, with what belongs to it besides the bytes.
struct Pending {
  Input input;
  Host::ReplyFn done;
  std::optional<bus::TopicPartition> at;  // of a bus message
  ReadPosition read{};                    // after the bus message
  std::uint64_t term = 0;                 // in which the reading began that the bus message is of
  bool skip = false;     // of another shard on the same bus, or lost by its producer's database: only its offset counts
  bool omitted = false;  // by a snapshot: the key ends
  bool kept = false;     // though a snapshot omits it: the break is counted in its version, and the engine sees nothing
  std::shared_ptr<const SnapshotEnd> snapshot_end = {};  // what the snapshot of topic input.name omits has ended
  std::optional<Error> unreadable = {};                  // no envelope: it becomes a dead letter without a codec
  // Its effects cannot be written (events.cpp): its caller gets this error, or it becomes a dead letter.
  std::optional<Error> refused = {};
  bool settled = false;              // the engine's own work that was due with it is done
  bool dropped = false;              // its refusal cannot be written either: only its offset is committed
  std::optional<Error> denied = {};  // a call that was not authorized: it is only recorded in the audit trail
};

/// The pending inputs in their order, bounded by number and by bytes. The owner's mutex guards it.
class Mailbox {
 public:
  Mailbox(std::size_t most, std::size_t most_bytes) : most_(most), most_bytes_(most_bytes) {}
  [[nodiscard]] bool full() const { return inputs_.size() >= most_ || bytes_ >= most_bytes_; }
  [[nodiscard]] bool empty() const { return inputs_.empty(); }
  [[nodiscard]] std::size_t size() const { return inputs_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Past the bound if the owner did not ask full().
  void push(Pending input) {
    bytes_ += input.input.bytes.size();
    inputs_.push_back(std::move(input));
  }
  /// The first ones, at most so many and so many bytes, one at least.
  std::vector<Pending> take(std::size_t most, std::size_t most_bytes) {
    std::vector<Pending> out;
    for (std::size_t bytes = 0; !inputs_.empty() && out.size() < most && (out.empty() || bytes < most_bytes);) {
      bytes += inputs_.front().input.bytes.size();
      out.push_back(std::move(inputs_.front()));
      inputs_.pop_front();
      bytes_ -= out.back().input.bytes.size();
    }
    return out;
  }
  std::vector<Pending> take_all() { return take(inputs_.size(), most_bytes_ + bytes_); }

 private:
  std::size_t most_, most_bytes_, bytes_ = 0;
  std::deque<Pending> inputs_;
};

}  // namespace qm::service
