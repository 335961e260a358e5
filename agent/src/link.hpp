#pragma once
#include "facts.hpp"
#include "qm/rpc/security.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace qm::agent {

/// The stream to the telemetry service: frames and facts go up, orders come down.
///
/// Stream   opened again with an increasing pause (steady time, at most kLongestPause) whenever it ends. Each stream
///          begins with a hello, and another hello follows whenever the nodes change.
/// Frames   are not stored: without a stream, or when kMaxFrames are queued, they are dropped and counted.
/// Facts    all unconfirmed facts are sent on each stream, and again as Facts defines.
/// Threads  any thread may call; on_order is called on the stream's reader thread.
class Link {
 public:
  struct Options {
    std::string address;  ///< host:port
    std::string version;
    std::function<void(const pb::CheckpointOrder&)> on_order;
    rpc::ClientSecurity security = {};
  };
  Link(Options options, Facts& facts);
  ~Link();
  void start();
  /// Ends the stream at once and joins.
  void stop();

  void serve(std::vector<std::string> nodes);
  void frame(pb::SampleFrame frame);
  /// True from the time the hello is sent until the stream ends.
  [[nodiscard]] bool up() const { return up_; }

  struct Counters {
    std::uint64_t reconnects = 0, frames = 0, frames_dropped = 0, facts_sent = 0;
  };
  [[nodiscard]] Counters counters() const;

  static constexpr SteadyDuration kFirstPause = std::chrono::milliseconds(50);
  static constexpr SteadyDuration kLongestPause = std::chrono::seconds(2);
  static constexpr std::size_t kMaxFrames = 1024;

 private:
  struct Stream;
  [[nodiscard]] bool stopping() const;
  void run();
  bool talk(Stream& stream);
  void listen(Stream& stream);
  bool send(Stream& stream, const pb::AgentMessage& message);

  Options options_;
  Facts& facts_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::string> nodes_;
  std::deque<pb::SampleFrame> frames_;
  bool stopping_ = false, hello_pending_ = false, changed_ = false;
  Stream* stream_ = nullptr;  // the stream that stop() cancels
  std::uint64_t streams_ = 0;
  Counters counters_;
  std::atomic<bool> up_ = false;
  std::thread thread_;
};

}  // namespace qm::agent
