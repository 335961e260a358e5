#include "qm/base/parse.hpp"
#include "services.hpp"

namespace qm::cloud {

Result<std::string> Aws::Impl::sqs(const std::string& action, const Json& body, Effect effect,
                                   std::chrono::milliseconds extra_time) {
  Call c;
  c.service = "sqs";
  c.content_type = "application/x-amz-json-1.0";
  c.target = "AmazonSQS." + action;
  c.body = body.dump();
  c.effect = effect;
  c.extra_time = extra_time;
  return wire.call(c);
}

Result<std::string> Aws::create_queue(const std::string& name) {
  QM_ASSIGN(const auto body, impl_->sqs("CreateQueue", Json::object({{"QueueName", name}}), Effect::kRepeatable));
  QM_ASSIGN(const auto json, Json::parse(body));
  const auto& url = json["QueueUrl"].string();
  if (url.empty()) return fail(Code::kInternal, "CreateQueue of {} answers without a QueueUrl", name);
  return url;
}

Status Aws::send_message(const std::string& queue_url, const std::string& body) {
  // Queues deliver at least once anyway, but a retry would add one more copy for every consumer to drop.
  QM_TRY(impl_->sqs("SendMessage", Json::object({{"QueueUrl", queue_url}, {"MessageBody", body}}), Effect::kOnce));
  return {};
}

Result<std::vector<QueueMessage>> Aws::receive_messages(const std::string& queue_url, int max, int wait_seconds,
                                                        std::optional<int> visibility_seconds) {
  auto ask = Json::object({{"QueueUrl", queue_url}, {"MaxNumberOfMessages", max}, {"WaitTimeSeconds", wait_seconds}});
  if (visibility_seconds) ask.set("VisibilityTimeout", *visibility_seconds);
  QM_ASSIGN(const auto body,
            impl_->sqs("ReceiveMessage", ask, Effect::kRead, std::chrono::seconds(std::max(0, wait_seconds))));
  QM_ASSIGN(const auto json, Json::parse(body));
  std::vector<QueueMessage> out;
  for (const auto& m : json["Messages"].items()) {
    out.push_back({m["MessageId"].string(), m["ReceiptHandle"].string(), m["Body"].string()});
  }
  return out;
}

Status Aws::delete_message(const std::string& queue_url, const std::string& receipt) {
  QM_TRY(impl_->sqs("DeleteMessage", Json::object({{"QueueUrl", queue_url}, {"ReceiptHandle", receipt}}),
                    Effect::kRepeatable));
  return {};
}

Result<std::size_t> Aws::delete_messages(const std::string& queue_url, const std::vector<std::string>& receipts) {
  constexpr std::size_t kMostEntries = 10;  // of the service
  std::size_t kept = 0;
  for (const auto& piece : pieces(receipts, kMostEntries)) {
    auto entries = Json::array();
    for (const auto& receipt : piece)
      entries.push_back(Json::object({{"Id", std::to_string(entries.size())}, {"ReceiptHandle", receipt}}));
    QM_ASSIGN(const auto body,
              impl_->sqs("DeleteMessageBatch", Json::object({{"QueueUrl", queue_url}, {"Entries", std::move(entries)}}),
                         Effect::kRepeatable));
    QM_ASSIGN(const auto json, Json::parse(body));
    kept += json["Failed"].size();
  }
  return kept;
}

// The service answers with texts.
Result<QueueDepth> Aws::queue_depth(const std::string& queue_url) {
  constexpr const char *kVisible = "ApproximateNumberOfMessages", *kInFlight = "ApproximateNumberOfMessagesNotVisible",
                       *kDelayed = "ApproximateNumberOfMessagesDelayed";
  const auto names = Json::array({kVisible, kInFlight, kDelayed});
  QM_ASSIGN(const auto body,
            impl_->sqs("GetQueueAttributes", Json::object({{"QueueUrl", queue_url}, {"AttributeNames", names}}),
                       Effect::kRead));
  QM_ASSIGN(const auto json, Json::parse(body));
  const auto number = [&](const char* name) { return whole_number(json["Attributes"][name].string()); };
  const auto visible = number(kVisible), in_flight = number(kInFlight), delayed = number(kDelayed);
  if (!visible || !in_flight || !delayed) {
    return fail(Code::kInternal, "GetQueueAttributes of {} answers without the numbers of messages", queue_url);
  }
  return QueueDepth{*visible, *in_flight, *delayed};
}

}  // namespace qm::cloud
