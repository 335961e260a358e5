#include "aws.hpp"

#include "aws_ec2.hpp"
#include "aws_groups.hpp"
#include "aws_queues.hpp"
#include "aws_wire.hpp"

#include <fmt/chrono.h>

#include <atomic>

namespace qm::fleet {
namespace {

/// The fault that the world injects into this call, in the format of each service.
Answered<void> check_api_fault(World& world, const std::string& service) {
  switch (world.api_fault(service)) {
    case World::ApiFault::kNone:
      return {};
    case World::ApiFault::kThrottled:
      if (service == "ec2") return refuse(503, "RequestLimitExceeded", "Request limit exceeded.");
      if (service == "sqs") return refuse(403, "RequestThrottled", "Rate exceeded");
      return refuse(400, "Throttling", "Rate exceeded");
    case World::ApiFault::kServerError:
      break;
  }
  return refuse(500, service == "ec2" ? "InternalError" : "InternalFailure", "An internal error has occurred");
}

/// "Sat, 21 Nov 2026 09:14:29 GMT".
std::string http_date(std::int64_t utc_seconds) {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(static_cast<std::time_t>(utc_seconds)));
}

constexpr int kSessionSeconds = 3600, kAgentSeconds = 6 * 3600;

AwsReply sts(const AwsCall& call, std::int64_t utc) {
  AwsXml xml;
  if (call.action == "GetCallerIdentity") {
    xml.leaf("UserId", AwsAccount::kOwner).leaf("Account", AwsAccount::kOwner);
    return xml.leaf("Arn", "arn:aws:iam::000000000000:root").str();
  }
  if (call.action != "AssumeRoleWithWebIdentity") {
    return refuse(400, "InvalidAction", "Could not find operation {}", call.action);
  }
  for (const char* name : {"RoleArn", "RoleSessionName", "WebIdentityToken"}) {
    if (call.param(name).empty()) return refuse(400, "ValidationError", "{} is missing", name);
  }
  FLEET_ASSIGN(const int seconds, call.number("DurationSeconds", kSessionSeconds, 900, 43'200));
  const auto& arn = call.param("RoleArn");
  const auto slash = arn.rfind('/');
  if (!arn.starts_with("arn:") || slash == std::string::npos) {
    return refuse(400, "ValidationError", "{} is invalid", arn);
  }
  const auto role = arn.substr(slash + 1);
  const auto keys = session_keys(role, utc + seconds);
  xml.open("Credentials").leaf("AccessKeyId", keys.access_key).leaf("SecretAccessKey", keys.secret_key);
  xml.leaf("SessionToken", keys.token);
  xml.leaf("Expiration", aws_instant(from_micros(keys.expires_utc_s * 1'000'000))).close();
  xml.open("AssumedRoleUser").leaf("AssumedRoleId", "AROA:" + call.param("RoleSessionName"));
  xml.leaf("Arn",
           fmt::format("arn:aws:sts::{}:assumed-role/{}/{}", AwsAccount::kOwner, role, call.param("RoleSessionName")));
  return xml.close().str();
}

/// The agent of EKS Pod Identity: the token of the pod for keys.
http::Response pod_identity(const http::Request& request, std::int64_t utc) {
  if (request.headers.get("Authorization").empty()) return http::text(401, "Access denied: no token");
  return http::json(200, agent_answer(session_keys("pod", utc + kAgentSeconds), utc).dump());
}

/// AWS Health's detail of the newest scheduled event of an instance.
Json health_event(const Instance& instance) {
  const MaintenanceEvent& event = instance.maintenance.back();
  std::string code = event.code;  // instance-retirement -> INSTANCE_RETIREMENT
  for (char& c : code) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return Json::object({{"eventArn", "arn:aws:health:::event/EC2/" + event.id},
                       {"service", "EC2"},
                       {"eventTypeCode", fmt::format("AWS_EC2_{}_SCHEDULED", code)},
                       {"eventTypeCategory", "scheduledChange"},
                       {"startTime", to_rfc3339(event.not_before)},
                       {"endTime", to_rfc3339(event.not_after)},
                       {"eventDescription",
                        Json::array({Json::object({{"language", "en_US"}, {"latestDescription", event.description}})})},
                       {"affectedEntities", Json::array({Json::object({{"entityValue", instance.id}})})}});
}

}  // namespace

struct AwsApi::Impl {
  Impl(World& w, Options o)
      : world(w),
        options(std::move(o)),
        account(w),
        templates(w, account),
        ec2(w, account, templates),
        groups(w, templates,
               [this](const char* type, const std::string& group, Json detail) {
                 publish(type, "aws.autoscaling",
                         fmt::format("arn:aws:autoscaling:{}:{}:autoScalingGroup:autoScalingGroupName/{}",
                                     world.options().region, AwsAccount::kOwner, group),
                         std::move(detail));
               }),
        queues(options.steady_now) {
    if (!options.utc_seconds) options.utc_seconds = host_utc;
    if (!options.event_queue.empty()) queues.create(options.event_queue);
  }

  void on_instance(const Instance& instance, InstanceEvent event) {
    groups.on_instance(instance, event);
    if (event == InstanceEvent::kBooted) return;
    const auto arn =
        fmt::format("arn:aws:ec2:{}:{}:instance/{}", world.options().region, AwsAccount::kOwner, instance.id);
    const auto of_instance = [&](const char* type, Json detail) {
      detail.set("instance-id", instance.id);
      publish(type, "aws.ec2", arn, std::move(detail));
    };
    if (event == InstanceEvent::kSpotNotice) {
      of_instance("EC2 Spot Instance Interruption Warning", Json::object({{"instance-action", "terminate"}}));
    } else if (event == InstanceEvent::kMaintenance) {
      publish("AWS Health Event", "aws.health", arn, health_event(instance));
    } else {
      of_instance("EC2 Instance State-change Notification", Json::object({{"state", name_of(instance.state)}}));
    }
  }

  /// Puts an event into the queue, in the envelope of EventBridge.
  void publish(const char* type, const char* source, const std::string& arn, Json detail) {
    if (options.event_queue.empty()) return;
    queues.deliver(options.event_queue, Json::object({{"version", "0"},
                                                      {"id", fmt::format("00000000-0000-0000-0000-{:012}", ++events)},
                                                      {"detail-type", type},
                                                      {"source", source},
                                                      {"account", AwsAccount::kOwner},
                                                      {"time", to_rfc3339(world.now_floor())},
                                                      {"region", world.options().region},
                                                      {"resources", Json::array({arn})},
                                                      {"detail", std::move(detail)}})
                                            .dump());
  }

  /// SQS sends its own answer, perhaps later; the Query services answer under the world's lock.
  Answered<http::Answer> dispatch(const http::Request& request, std::int64_t utc, const std::string& request_id,
                                  std::string& service) {
    FLEET_ASSIGN(const AwsCall call, read_aws_call(request, utc, service));
    FLEET_TRY(check_api_fault(world, service));
    if (service == "sqs") return queues.handle(call);
    if (service == "sts") {
      FLEET_ASSIGN(const std::string inner, sts(call, utc));
      return aws_response(call, inner, request_id);
    }
    const auto held = world.lock();
    if (service == "ssm") return account.ssm(call);
    FLEET_ASSIGN(const std::string inner, service == "ec2"   ? ec2.handle(call)
                                          : service == "iam" ? account.iam(call)
                                                             : groups.handle(call));
    return aws_response(call, inner, request_id);
  }

  World& world;
  Options options;
  AwsAccount account;
  AwsTemplates templates;
  AwsEc2 ec2;
  AwsGroups groups;
  AwsQueues queues;
  std::uint64_t events = 0;  ///< guarded by the world's lock
  std::atomic<std::uint64_t> requests{0};
};

AwsApi::AwsApi(World& world, Options options) : impl_(std::make_shared<Impl>(world, std::move(options))) {
  // The world keeps its listeners for ever; after this object is destroyed the listener does nothing.
  world.listen([weak = std::weak_ptr(impl_)](const Instance& instance, InstanceEvent event) {
    if (const auto impl = weak.lock()) impl->on_instance(instance, event);
  });
}

AwsApi::~AwsApi() = default;

void AwsApi::set_hidden(Duration hidden) {
  const auto held = impl_->world.lock();
  impl_->ec2.set_hidden(hidden);
}

http::Answer AwsApi::handle(const http::Request& request) {
  const auto utc = impl_->options.utc_seconds();
  const auto request_id = fmt::format("00000000-0000-4000-8000-{:012x}", ++impl_->requests);
  if (request.method == "GET" && request.target == "/v1/credentials") return pod_identity(request, utc);
  std::string service;
  auto done = impl_->dispatch(request, utc, request_id, service);
  auto out = done ? std::move(*done) : http::Answer(aws_refusal(service, done.error(), request_id));
  // A client detects from it that its own clock is wrong.
  out.head.headers.set("Date", http_date(utc));
  return out;
}

}  // namespace qm::fleet
