#pragma once
#include "aws_wire.hpp"
#include "ticker.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace qm::fleet {

/// SQS: standard queues in memory. A received message is hidden until its visibility timeout ends, then delivered
/// again with a new receipt; old receipts still delete it, as in the real service.
///
/// A long poll uses no thread: its answer is a stream that is written when a message arrives or the wait time is over.
///
/// Threads  any. It never calls the world, so it may be called under the world's lock.
/// Time     steady.
class AwsQueues {
 public:
  explicit AwsQueues(std::function<SteadyInstant()> now);
  ~AwsQueues();
  [[nodiscard]] Answered<http::Answer> handle(const AwsCall& call);
  void create(const std::string& name);
  /// Sends a message from inside the cloud; does nothing if the queue does not exist.
  void deliver(const std::string& queue, const std::string& body);

 private:
  struct Message {
    std::string id, body;
    SteadyInstant visible_at{};
    int received = 0;
  };
  struct Poll {
    std::shared_ptr<http::Stream> stream;
    int max = 1;
    SteadyDuration visibility{};
    SteadyInstant until{};
  };
  struct Queue {
    SteadyDuration visibility{};
    std::map<std::int64_t, Message> messages;  ///< in send order
    std::deque<Poll> polls;                    ///< in request order
  };
  using Reply = Answered<http::Answer>;

  Reply create_queue(const AwsCall& call);
  Reply get_url(const AwsCall& call);
  Reply send(const AwsCall& call);
  Reply receive(const AwsCall& call);
  Reply remove(const AwsCall& call);
  Reply remove_batch(const AwsCall& call);
  Queue* find(const std::string& url_or_name);
  Answered<Queue*> meant(const AwsCall& call);
  Message& push(Queue& queue, const std::string& body);
  [[nodiscard]] Json take(Queue& queue, const Poll& poll);
  void serve(Queue& queue);

  std::function<SteadyInstant()> now_;
  std::mutex mutex_;
  std::map<std::string, Queue> queues_;
  std::int64_t sequence_ = 0;
  Ticker ticker_;
};

}  // namespace qm::fleet
