#include "aws_queues.hpp"

#include "qm/base/digest.hpp"
#include "text.hpp"

#include <openssl/evp.h>

#include <array>
#include <set>

namespace qm::fleet {
namespace {

using std::chrono::seconds;

constexpr seconds kDefaultVisibility{30};
constexpr std::int64_t kMaxVisibility = 43'200;
constexpr std::int64_t kMaxWait = 20;
constexpr std::int64_t kMaxBatch = 10;
constexpr std::size_t kMaxBody = 256 * 1024;
constexpr std::size_t kMaxMessages = 120'000;  // in flight, of a real queue; here of all
constexpr std::size_t kMaxName = 80;

/// SDKs compare it with their own checksum of the message.
std::string md5_hex(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), sum.data(), &size, EVP_md5(), nullptr);
  std::string out;
  for (unsigned int i = 0; i < size; ++i) fmt::format_to(std::back_inserter(out), "{:02x}", sum[i]);
  return out;
}

tl::unexpected<Refusal> refused(std::string_view message) {
  return refuse(400, "InvalidParameterValue", "{}", message);
}
tl::unexpected<Refusal> no_queue() { return refuse(400, "QueueDoesNotExist", "The specified queue does not exist."); }

http::Answer answer(const Json& body) {
  auto response = http::json(200, body.dump());
  response.headers.set("Content-Type", "application/x-amz-json-1.0");
  return response;
}

Answered<std::int64_t> bounded(const Json& body, const char* name, std::int64_t fallback, std::int64_t low,
                               std::int64_t high) {
  if (!body.contains(name)) return fallback;
  const auto value = body[name].integer(low - 1);
  if (value < low || value > high) {
    return refused(fmt::format("Value for parameter {} is invalid. Reason: Must be >= {} and <= {}.", name, low, high));
  }
  return value;
}

/// "42.3" is the third receipt of message 42; the counter makes each receipt unique.
std::optional<std::int64_t> message_of(const std::string& receipt) {
  const auto parts = split(receipt, '.');
  return parts.size() == 2 ? whole_number(parts[0]) : std::nullopt;
}

}  // namespace

AwsQueues::AwsQueues(std::function<SteadyInstant()> now)
    : now_(now ? std::move(now) : [] { return std::chrono::steady_clock::now(); }) {
  // For changes that only time causes: a poll times out, or a message becomes visible again.
  ticker_.start(std::chrono::milliseconds(50), [this] {
    const std::lock_guard lock(mutex_);
    for (auto& [name, queue] : queues_) serve(queue);
  });
}

AwsQueues::~AwsQueues() {
  ticker_.stop();
  for (auto& [name, queue] : queues_) {
    for (auto& poll : queue.polls) poll.stream->close();
  }
}

Answered<http::Answer> AwsQueues::handle(const AwsCall& call) {
  const std::lock_guard lock(mutex_);
  if (call.action == "CreateQueue") return create_queue(call);
  if (call.action == "GetQueueUrl") return get_url(call);
  if (call.action == "SendMessage") return send(call);
  if (call.action == "ReceiveMessage") return receive(call);
  if (call.action == "DeleteMessage") return remove(call);
  if (call.action == "DeleteMessageBatch") return remove_batch(call);
  return refuse(400, "UnknownOperationException", "The operation {} is not known.", call.action);
}

void AwsQueues::create(const std::string& name) {
  const std::lock_guard lock(mutex_);
  queues_.try_emplace(name).first->second.visibility = kDefaultVisibility;
}

void AwsQueues::deliver(const std::string& queue, const std::string& body) {
  const std::lock_guard lock(mutex_);
  auto* found = find(queue);
  if (found == nullptr || found->messages.size() >= kMaxMessages) return;
  push(*found, body);
}

AwsQueues::Queue* AwsQueues::find(const std::string& url_or_name) {
  return find_in(queues_, url_or_name.substr(url_or_name.rfind('/') + 1));
}

Answered<AwsQueues::Queue*> AwsQueues::meant(const AwsCall& call) {
  if (auto* queue = find(call.body["QueueUrl"].string())) return queue;
  return no_queue();
}

AwsQueues::Reply AwsQueues::create_queue(const AwsCall& call) {
  const auto& name = call.body["QueueName"].string();
  const bool plain =
      !name.empty() && name.size() <= kMaxName &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == std::string::npos;
  if (!plain) {
    return refused("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length");
  }
  auto visibility = kDefaultVisibility;
  // All attributes are strings, including numbers.
  if (const auto& text = call.body["Attributes"]["VisibilityTimeout"].string(); !text.empty()) {
    const std::int64_t value = whole_number(text).value_or(-1);
    if (value < 0 || value > kMaxVisibility) return refused("Invalid value for the parameter VisibilityTimeout.");
    visibility = seconds(value);
  }
  const auto [it, made] = queues_.try_emplace(name);
  if (made) it->second.visibility = visibility;
  return get_url(call);
}

AwsQueues::Reply AwsQueues::get_url(const AwsCall& call) {
  const auto& name = call.body["QueueName"].string();
  if (find(name) == nullptr) return no_queue();
  return answer(Json::object({{"QueueUrl", fmt::format("http://{}/000000000000/{}", call.authority, name)}}));
}

AwsQueues::Message& AwsQueues::push(Queue& queue, const std::string& body) {
  const auto n = ++sequence_;
  const auto id = dashed(sha256_hex(fmt::format("message {}", n)));
  auto& message = queue.messages.emplace(n, Message{id, body, now_(), 0}).first->second;
  serve(queue);
  return message;
}

AwsQueues::Reply AwsQueues::send(const AwsCall& call) {
  FLEET_ASSIGN(auto* const queue, meant(call));
  const auto& body = call.body["MessageBody"].string();
  if (body.empty() || body.size() > kMaxBody) return refused("The message must hold 1 byte to 256 KiB.");
  if (queue->messages.size() >= kMaxMessages) return refuse(403, "OverLimit", "Too many messages.");
  const auto& message = push(*queue, body);
  return answer(Json::object({{"MessageId", message.id}, {"MD5OfMessageBody", md5_hex(body)}}));
}

Json AwsQueues::take(Queue& queue, const Poll& poll) {
  auto messages = Json::array();
  const auto now = now_();
  for (auto& [n, message] : queue.messages) {
    if (messages.size() == static_cast<std::size_t>(poll.max)) break;
    if (message.visible_at > now) continue;
    message.visible_at = now + poll.visibility;
    ++message.received;
    messages.push_back(Json::object({{"MessageId", message.id},
                                     {"ReceiptHandle", fmt::format("{}.{}", n, message.received)},
                                     {"MD5OfBody", md5_hex(message.body)},
                                     {"Body", message.body}}));
  }
  return messages;
}

AwsQueues::Reply AwsQueues::receive(const AwsCall& call) {
  FLEET_ASSIGN(auto* const queue, meant(call));
  const auto usual = std::chrono::duration_cast<seconds>(queue->visibility).count();
  FLEET_ASSIGN(const auto max, bounded(call.body, "MaxNumberOfMessages", 1, 1, kMaxBatch));
  FLEET_ASSIGN(const auto wait, bounded(call.body, "WaitTimeSeconds", 0, 0, kMaxWait));
  FLEET_ASSIGN(const auto visibility, bounded(call.body, "VisibilityTimeout", usual, 0, kMaxVisibility));
  Poll poll{nullptr, static_cast<int>(max), seconds(visibility), now_() + seconds(wait)};
  auto messages = take(*queue, poll);
  if (messages.size() > 0) return answer(Json::object({{"Messages", std::move(messages)}}));
  if (wait == 0) return answer(Json::object());
  auto head = answer(Json::object()).head;
  head.body.clear();
  // Queues are never deleted.
  return http::Answer(std::move(head), [this, queue, poll](std::shared_ptr<http::Stream> stream) mutable {
    const std::lock_guard lock(mutex_);
    poll.stream = std::move(stream);
    queue->polls.push_back(std::move(poll));
    serve(*queue);  // a message may have come between the head and now
  });
}

/// Answers the polls that are due: there are messages, or the wait time is over.
void AwsQueues::serve(Queue& queue) {
  const auto now = now_();
  for (auto it = queue.polls.begin(); it != queue.polls.end();) {
    if (it->stream->closed()) {  // no reader is left: the next poll gets the messages
      it = queue.polls.erase(it);
      continue;
    }
    auto messages = take(queue, *it);
    if (messages.size() == 0 && now < it->until) {
      ++it;
      continue;
    }
    const auto body = messages.size() == 0 ? Json::object() : Json::object({{"Messages", std::move(messages)}});
    it->stream->write(body.dump());
    it->stream->close();
    it = queue.polls.erase(it);
  }
}

AwsQueues::Reply AwsQueues::remove(const AwsCall& call) {
  FLEET_ASSIGN(auto* const queue, meant(call));
  const auto& receipt = call.body["ReceiptHandle"].string();
  const auto n = message_of(receipt);
  if (!n || *n > sequence_) {
    return refuse(400, "ReceiptHandleIsInvalid", "The input receipt handle \"{}\" is not valid.", receipt);
  }
  queue->messages.erase(*n);
  return answer(Json::object());
}

AwsQueues::Reply AwsQueues::remove_batch(const AwsCall& call) {
  FLEET_ASSIGN(auto* const queue, meant(call));
  const auto& entries = call.body["Entries"].items();
  if (entries.empty())
    return refuse(400, "EmptyBatchRequest",
                  "There should be at least one DeleteMessageBatchRequestEntry in the request.");
  if (entries.size() > static_cast<std::size_t>(kMaxBatch))
    return refuse(400, "TooManyEntriesInBatchRequest",
                  "Maximum number of entries per request are {}. You have sent {}.", kMaxBatch, entries.size());
  std::set<std::string> ids;
  for (const auto& entry : entries) {
    if (!ids.insert(entry["Id"].string()).second)
      return refuse(400, "BatchEntryIdsNotDistinct", "Id {} repeated.", entry["Id"].string());
  }
  auto done = Json::array(), failed = Json::array();
  for (const auto& entry : entries) {
    const auto n = message_of(entry["ReceiptHandle"].string());
    if (n && *n <= sequence_) {
      queue->messages.erase(*n);
      done.push_back(Json::object({{"Id", entry["Id"]}}));
    } else {
      failed.push_back(Json::object({{"Id", entry["Id"]},
                                     {"SenderFault", true},
                                     {"Code", "ReceiptHandleIsInvalid"},
                                     {"Message", "The input receipt handle is invalid."}}));
    }
  }
  Json body = Json::object({{"Successful", std::move(done)}});
  if (failed.size() > 0) body.set("Failed", std::move(failed));
  return answer(body);
}

}  // namespace qm::fleet
