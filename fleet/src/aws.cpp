#include "aws.hpp"

#include "aws_ec2.hpp"
#include "aws_groups.hpp"
#include "aws_queues.hpp"
#include "aws_wire.hpp"

#include <atomic>
#include <mutex>

namespace qm::fleet {
namespace {

std::int64_t machine_utc() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(wall).count();
}

/// The refusal that the world wants for this call, in the words that each service uses.
std::optional<AwsFault> trouble_of(World& world, const std::string& service) {
  switch (world.trouble(service)) {
    case World::Trouble::kNone:
      return std::nullopt;
    case World::Trouble::kThrottled:
      if (service == "ec2") return AwsFault{503, "RequestLimitExceeded", "Request limit exceeded."};
      if (service == "sqs") return AwsFault{403, "RequestThrottled", "Rate exceeded"};
      return AwsFault{400, "Throttling", "Rate exceeded"};
    case World::Trouble::kServerError:
      return AwsFault{500, service == "ec2" ? "InternalError" : "InternalFailure", "An internal error has occurred"};
  }
  return std::nullopt;
}

/// EventBridge's envelope around what happened to an instance.
std::string event_body(const World& world, const Instance& instance, std::uint64_t number, const char* type,
                       Json detail) {
  return Json::object({{"version", "0"},
                       {"id", fmt::format("00000000-0000-0000-0000-{:012}", number)},
                       {"detail-type", type},
                       {"source", "aws.ec2"},
                       {"account", "000000000000"},
                       {"time", to_rfc3339(world.now_floor())},
                       {"region", world.options().region},
                       {"resources", Json::array({fmt::format("arn:aws:ec2:{}:000000000000:instance/{}",
                                                              world.options().region, instance.id)})},
                       {"detail", std::move(detail)}})
      .dump();
}

}  // namespace

struct AwsApi::Impl {
  Impl(World& w, Options o) : world(w), options(std::move(o)), ec2(w), groups(w, ec2), queues(options.steady_now) {
    if (!options.utc_seconds) options.utc_seconds = machine_utc;
    ec2.set_hidden(options.hidden);
    if (!options.event_queue.empty()) queues.create(options.event_queue);
  }

  void on_instance(const Instance& instance, InstanceEvent event) {
    groups.on_instance(instance, event);
    if (options.event_queue.empty() || event == InstanceEvent::kBooted) return;
    if (event == InstanceEvent::kSpotNotice) {
      queues.deliver(options.event_queue,
                     event_body(world, instance, ++events, "EC2 Spot Instance Interruption Warning",
                                Json::object({{"instance-id", instance.id}, {"instance-action", "terminate"}})));
      return;
    }
    queues.deliver(options.event_queue,
                   event_body(world, instance, ++events, "EC2 Instance State-change Notification",
                              Json::object({{"instance-id", instance.id}, {"state", name_of(instance.state)}})));
  }

  /// SQS answers for itself, perhaps later; the Query services answer inside the world's lock.
  tl::expected<http::Answer, AwsFault> dispatch(const AwsCall& call, const std::string& request_id) {
    if (auto fault = trouble_of(world, call.service)) return tl::unexpected<AwsFault>(std::move(*fault));
    if (call.service == "sqs") return queues.handle(call);
    const auto held = world.lock();
    auto inner = call.service == "ec2" ? ec2.handle(call) : groups.handle(call);
    if (!inner) return tl::unexpected<AwsFault>(std::move(inner).error());
    return http::Answer(aws_response(call, *inner, request_id));
  }

  World& world;
  Options options;
  AwsEc2 ec2;
  AwsGroups groups;
  AwsQueues queues;
  std::uint64_t events = 0;  ///< under the world's lock
  std::atomic<std::uint64_t> requests{0};
};

AwsApi::AwsApi(World& world, Options options) : impl_(std::make_shared<Impl>(world, std::move(options))) {
  // The world keeps its listeners for ever; one that outlives this object hears nothing.
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
  std::string service;
  const auto answer = [&]() -> http::Answer {
    const auto call = read_aws_call(request, {impl_->options.access_key, impl_->options.secret_key}, utc, service);
    if (!call) return aws_fault_response(service, call.error(), request_id);
    auto done = impl_->dispatch(*call, request_id);
    if (!done) return aws_fault_response(service, done.error(), request_id);
    return std::move(*done);
  };
  auto out = answer();
  out.head.headers.set("Date",
                       http_date(utc));  // from it a client learns that its own clock is wrong
  return out;
}

}  // namespace qm::fleet
