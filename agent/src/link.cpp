#include "link.hpp"

#include "qm/base/log.hpp"
#include "qm/rpc/channel.hpp"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <random>

namespace qm::agent {
namespace {

constexpr std::size_t kFactsAtOnce = 256;
constexpr int kMostBytes = 64 << 20;  // of a message
constexpr int kLooks = 20;            // checks of a connection in progress, and the duration of each
constexpr auto kLook = std::chrono::milliseconds(250);

}  // namespace

struct Link::Stream {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<pb::AgentMessage, pb::AgentOrder>> call;
  bool over = false;  // guarded by the link's mutex: the reader reached the end
};

Link::Link(Options options, Facts& facts) : options_(std::move(options)), facts_(facts) {
  facts_.on_added([this] {
    const std::lock_guard lock(mutex_);
    changed_ = true;
    wake_.notify_all();
  });
}

Link::~Link() { stop(); }

void Link::start() {
  thread_ = std::thread([this] { run(); });
}

void Link::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->context.TryCancel();
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Link::serve(std::vector<std::string> nodes) {
  const std::lock_guard lock(mutex_);
  nodes_ = std::move(nodes);
  hello_pending_ = true;
  wake_.notify_all();
}

void Link::frame(pb::SampleFrame frame) {
  const std::lock_guard lock(mutex_);
  if (!up_ || frames_.size() >= kMaxFrames) {
    ++counters_.frames_dropped;
    return;
  }
  frames_.push_back(std::move(frame));
  wake_.notify_all();
}

bool Link::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

Link::Counters Link::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void Link::run() {
  const auto channel = rpc::channel_to(options_.address, kMostBytes, options_.security);
  const auto stub = pb::Telemetry::NewStub(channel);
  std::minstd_rand random(std::random_device{}());
  SteadyDuration pause = kFirstPause;
  while (true) {
    Stream stream;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      stream_ = &stream;
    }
    // gRPC does not drive a connection while no call is active, and gives up an incomplete one after a second. So the
    // link waits for the connection; if it fails, the call reports the reason.
    for (int look = 0;
         look < kLooks && !stopping() && !channel->WaitForConnected(std::chrono::system_clock::now() + kLook); ++look) {
    }
    stream.call = stub->Push(&stream.context);
    std::thread reader([&] { listen(stream); });
    const bool was_up = talk(stream);
    stream.context.TryCancel();  // ends the reader, whichever side ended the stream
    reader.join();
    const auto ended = stream.call->Finish();
    std::unique_lock lock(mutex_);
    up_ = false;
    stream_ = nullptr;
    counters_.frames_dropped += frames_.size();
    frames_.clear();
    if (stopping_) return;
    if (was_up) pause = kFirstPause;
    log::info("telemetry stream is down",
              {{"address", options_.address}, {"was_up", was_up}, {"error", ended.error_message()}});
    const auto jittered = pause / 2 + pause / 2 * static_cast<int>(random() % 100) / 100;
    wake_.wait_for(lock, jittered, [this] { return stopping_; });
    pause = std::min(pause * 2, kLongestPause);
  }
}

void Link::listen(Stream& stream) {
  pb::AgentOrder order;
  while (stream.call->Read(&order)) {
    if (order.has_checkpoint()) {
      options_.on_order(order.checkpoint());
    } else if (!order.fact_committed().empty()) {
      facts_.confirm(order.fact_committed());
    }
  }
  const std::lock_guard lock(mutex_);
  stream.over = true;
  wake_.notify_all();
}

bool Link::send(Stream& stream, const pb::AgentMessage& message) { return stream.call->Write(message); }

/// Writes until the stream or the agent ends; true if the hello was sent.
bool Link::talk(Stream& stream) {
  bool first = true;
  facts_.renew();
  while (true) {
    bool hello = false;
    pb::AgentMessage message;
    std::deque<pb::SampleFrame> frames;
    {
      std::unique_lock lock(mutex_);
      if (!first) {
        wake_.wait_for(lock, Facts::kRepeat / 4,
                       [&] { return stopping_ || stream.over || hello_pending_ || changed_ || !frames_.empty(); });
      }
      if (stopping_ || stream.over) return !first;
      hello = first || hello_pending_;
      hello_pending_ = changed_ = false;
      if (hello) {
        for (const auto& node : nodes_) message.mutable_hello()->add_nodes(node);
        message.mutable_hello()->set_version(options_.version);
      }
      frames.swap(frames_);
    }
    if (hello) {
      if (!send(stream, message)) return !first;
      if (first) {
        const std::lock_guard lock(mutex_);
        up_ = true;
        if (streams_++ > 0) ++counters_.reconnects;
        log::info("telemetry stream is up", {{"address", options_.address}, {"nodes", nodes_.size()}});
      }
      first = false;
    }
    std::uint64_t facts_sent = 0, frames_sent = 0;
    bool alive = true;
    while (alive) {
      auto facts = facts_.due(std::chrono::steady_clock::now(), kFactsAtOnce);
      if (facts.empty()) break;
      for (auto& fact : facts) {
        pb::AgentMessage m;
        *m.mutable_fact() = std::move(fact);
        alive = alive && send(stream, m);
        ++facts_sent;
      }
    }
    for (auto& frame : frames) {
      pb::AgentMessage m;
      *m.mutable_frame() = std::move(frame);
      alive = alive && send(stream, m);
      frames_sent += alive ? 1 : 0;
    }
    const std::lock_guard lock(mutex_);
    counters_.facts_sent += facts_sent;
    counters_.frames += frames_sent;
    counters_.frames_dropped += frames.size() - frames_sent;
    if (!alive) return true;
  }
}

}  // namespace qm::agent
