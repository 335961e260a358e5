#pragma once
#include "qm/rpc/stream.hpp"
#include "qm/service/host.hpp"

#include <functional>
#include <optional>
#include <utility>

namespace qm::rpc {

/// A server stream of the committed events of a host, each as a message. It deletes itself when the call ends.
///
/// `after`    the resume version: the sequence of the last event received; 0 = events from now on.
/// `most`     messages that a reader may be behind, as for StreamWriter.
/// `convert`  runs on the engine's thread and must not block; an event without a message is left out.
/// Fails      the stream ends with kOutOfRange if `after` is older than the feed.
template <class Message>
class FeedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  using Convert = std::function<std::optional<Message>(const service::FeedEvent&)>;

  FeedStream(service::Host& host, std::uint64_t after, std::size_t most, Convert convert)
      : host_(host), out_(*this, most) {
    this->StartSendInitialMetadata();  // sent after this constructor: its receiver misses no later event
    auto handle = host_.follow(after == 0 ? host_.feed_position() : after,
                               [this, convert = std::move(convert)](const service::FeedEvent& event) {
                                 if (auto message = convert(event)) out_.push(std::move(*message));
                               });
    if (handle) {
      handle_ = *handle;
      out_.live();
    } else {
      out_.finish(to_grpc(handle.error()));
    }
  }
  void OnWriteDone(bool ok) override { out_.written(ok); }
  void OnCancel() override { out_.finish(grpc::Status::CANCELLED); }
  void OnDone() override {
    if (handle_ != 0) host_.unfollow(handle_);
    delete this;
  }

 private:
  service::Host& host_;
  StreamWriter<FeedStream, Message> out_;
  std::uint64_t handle_ = 0;
};

}  // namespace qm::rpc
