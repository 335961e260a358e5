// The fleet of the golden texts.
#include "fake_suite.hpp"

namespace qm::cli {
namespace {

constexpr std::int64_t kMinute = 60 * kSecond, kHour = 60 * kMinute;
constexpr std::int64_t kGi = std::int64_t{1} << 30;
constexpr auto kBigNode = "ip-10-0-1-7.ec2.internal", kSpotNode = "ip-10-0-2-9.ec2.internal";

pb::Workload workload(const char* uid, const char* ns, const char* name, pb::WorkloadPhase phase, int pods, int gpus,
                      std::int64_t ago) {
  pb::Workload w;
  auto& state = *w.mutable_state();
  auto& spec = *state.mutable_spec();
  spec.set_uid(uid);
  spec.set_namespace_(ns);
  spec.set_name(name);
  spec.set_kind("Job");
  spec.set_queue(ns);
  spec.set_team(ns);
  spec.set_priority(100);
  spec.set_priority_class("production");
  spec.set_submitted_us(kNow - ago);
  auto& set = *spec.add_pod_sets();
  set.set_name("main");
  set.set_count(pods);
  set.mutable_shape()->set_cpu_milli(12'000);
  set.mutable_shape()->set_memory_bytes(96 * kGi);
  set.mutable_shape()->mutable_gpu()->set_whole(gpus);
  set.mutable_shape()->mutable_gpu()->add_models("NVIDIA-A100-SXM4-80GB");
  state.set_attempt(1);
  state.set_phase(phase);
  w.set_version(3);
  return w;
}

pb::NodeView node(const char* name, pb::NodeState state, const char* market, int used, const char* reason) {
  pb::NodeView view;
  auto& n = *view.mutable_node();
  n.set_node(name);
  n.set_state(state);
  n.set_instance_type("p4d.24xlarge");
  n.set_zone("us-east-1a");
  n.set_capacity_type(market);
  n.set_gpus(8);
  n.set_gpu_model("NVIDIA-A100-SXM4-40GB");
  n.set_since_us(kNow - 3 * kHour);
  n.set_pods(used > 0 ? 1 : 0);
  n.set_reason(reason);
  for (int i = 0; i < 8; ++i) {
    auto& d = *view.add_devices();
    d.set_index(i);
    d.set_used_milli(i < used ? 1000 : 0);
    d.set_healthy(reason[0] == '\0' || i != 5);
  }
  return view;
}

pb::InstanceEvent claim(const char* name, pb::InstanceState state, std::int64_t ago, const char* on, const char* why) {
  pb::InstanceEvent c;
  c.set_claim(name);
  c.set_instance_type("p4d.24xlarge");
  c.set_zone("us-east-1a");
  c.set_capacity_type("spot");
  c.set_node_pool("training");
  c.set_state(state);
  c.set_requested_us(kNow - ago);
  if (state == pb::INSTANCE_RUNNING) c.set_launched_us(kNow - ago + 30 * kSecond);
  c.set_gpus(8);
  c.set_node(on);
  c.set_reason(why);
  return c;
}

pb::GpuReading reading(const char* on, int gpu, double utilization, const char* pod, std::int64_t ago) {
  pb::GpuReading r;
  r.set_node(on);
  r.set_at_us(kNow - ago);
  auto& s = *r.mutable_sample();
  s.set_gpu_index(gpu);
  s.set_model("NVIDIA A100-SXM4-40GB");
  s.set_utilization(utilization);
  s.set_sm_active(gpu == 0 ? utilization : -1);
  s.set_fb_used_bytes(gpu == 0 ? 30 * kGi + kGi / 2 : 0);
  s.set_fb_free_bytes(gpu == 0 ? 9 * kGi + kGi / 2 : 40 * kGi);
  s.set_temperature_c(61.4);
  s.set_power_watts(312.6);
  s.set_xid(gpu == 5 ? 79 : 0);
  s.set_namespace_(pod[0] == '\0' ? "" : "nlp");
  s.set_pod(pod);
  return r;
}

pb::StatementLine pays(const char* team, std::int64_t nano, std::int64_t gpu_micros) {
  pb::StatementLine line;
  line.set_team(team);
  line.set_nano_usd(nano);
  line.set_gpu_micros(gpu_micros);
  return line;
}

pb::Price price(const char* type, const char* market, const char* zone, std::int64_t nano, const char* source) {
  pb::Price p;
  p.set_instance_type(type);
  p.set_capacity_type(market);
  p.set_zone(zone);
  p.set_nano_usd_hour(nano);
  p.set_from_us(kNow - 24 * kHour);
  p.set_source(source);
  return p;
}

pb::EventLine event(const char* topic, const char* key, std::uint64_t version, const char* summary) {
  pb::EventLine line;
  line.set_topic(topic);
  line.set_key(key);
  line.set_key_version(version);
  line.set_at_us(kNow);
  line.set_summary(summary);
  line.set_source("redis");
  return line;
}

pb::AssignmentMember member(int index, const char* on, int first_gpu, const char* pod) {
  pb::AssignmentMember m;
  m.set_pod_set("main");
  m.set_index(index);
  m.set_node(on);
  m.set_pod(pod);
  m.set_bound_us(kNow - 10 * kMinute);
  for (int i = 0; i < 2; ++i) {
    auto& d = *m.add_devices();
    d.set_node(on);
    d.set_index(first_gpu + i);
    d.set_milli(1000);
  }
  return m;
}

pb::EvaluateScaleResponse scale() {
  pb::EvaluateScaleResponse out;
  out.set_as_of_us(kNow);
  auto& target = *out.add_targets();
  target.set_namespace_("nlp");
  target.set_kind("Deployment");
  target.set_name("llm");
  target.set_replicas(4);
  target.set_wanted(6);
  target.set_scaled_by("quartermaster");
  target.set_decided_by("HorizontalPodAutoscaler nlp/llm");
  target.set_bound("the smallest upper bound");
  target.set_conflict("2 scalers have this target: HorizontalPodAutoscaler nlp/llm, ScaledObject nlp/queue");
  auto& hpa = *target.add_scalers();
  hpa.set_kind("HorizontalPodAutoscaler");
  hpa.set_name("llm");
  hpa.set_current(4);
  hpa.set_wanted(8);
  hpa.set_min(2);
  hpa.set_max(20);
  hpa.set_rule("rate_up");
  hpa.set_reason("the policies of scaleUp limit the change");
  hpa.set_at_us(kNow - 5 * kSecond);
  auto& depth = *hpa.add_metrics();
  depth.set_name("vllm:num_requests_waiting");
  depth.set_ratio(2.5);
  depth.set_replicas(10);
  depth.set_rule("metric");
  auto& failed = *hpa.add_metrics();
  failed.set_name("gpu_utilization");
  failed.set_error("the metric gpu_utilization failed");
  auto& queue = *target.add_scalers();
  queue.set_kind("ScaledObject");
  queue.set_name("queue");
  queue.set_current(4);
  queue.set_min(0);
  queue.set_max(6);
  queue.set_rule("cooldown");
  queue.set_reason("cooldownPeriod is not over");
  queue.set_wanted(4);
  queue.set_at_us(kNow - 5 * kSecond);
  return out;
}

}  // namespace

void populate(FakeState& state) {
  state.explanation.Clear();
  state.assignment.Clear();
  state.plan.Clear();
  state.scale = scale();
  state.statement.Clear();
  auto running = workload("u-1", "nlp", "pretrain", pb::ADMITTED, 2, 2, 20 * kMinute);
  running.mutable_state()->mutable_spec()->mutable_pod_sets(0)->set_completions(6);
  running.mutable_state()->set_cluster_queue("research");
  running.mutable_state()->set_quota_reserved_us(kNow - 12 * kMinute);
  running.mutable_state()->set_admitted_us(kNow - 11 * kMinute);
  running.mutable_state()->set_resume_uri("s3://checkpoints/pretrain?step=400");
  (*running.mutable_state()->mutable_flavors())["main"] = "a100";
  auto waiting = workload("u-2", "vision", "finetune", pb::PENDING, 4, 8, 95 * kSecond);
  waiting.set_position(2);
  waiting.mutable_state()->set_reason("32 of nvidia.com/gpu wanted in flavor a100, 12 left");
  auto ended = workload("u-3", "nlp", "eval", pb::FINISHED, 1, 1, 50 * kHour);
  ended.mutable_state()->set_finished_us(kNow - 49 * kHour);
  ended.mutable_state()->set_succeeded(true);
  state.workloads = {waiting, running, ended};

  state.explanation.set_uid("u-2");
  state.explanation.set_summary(
      "vision/finetune is pending: 32 of nvidia.com/gpu wanted in flavor a100, 12 left for ClusterQueue vision");
  state.explanation.set_waiting_us(95 * kSecond);
  auto& cause = *state.explanation.add_causes();
  cause.set_code("QuotaExceeded");
  cause.set_message("32 of nvidia.com/gpu wanted in flavor a100, 12 left for ClusterQueue vision");
  cause.set_resource("nvidia.com/gpu");
  cause.set_requested(32'000);
  cause.set_available(12'000);
  cause.set_remedy("wait until workloads of the queue release 20");
  auto& raise = *state.explanation.add_remedies();
  raise.set_code("RaiseQuota");
  raise.set_message("raise in ClusterQueue vision nominalQuota of nvidia.com/gpu in flavor a100 from 64 to 84");
  auto& end = *state.explanation.add_remedies();
  end.set_code("End");
  end.set_message("wait until 2 workloads end, or end them");
  end.add_workloads("vision/pretrain");
  end.set_hidden(1);

  auto& placed = *state.assignment.mutable_state();
  placed.set_uid("u-1");
  placed.set_attempt(1);
  placed.set_state(pb::BOUND);
  placed.set_short_reason("runs with 2 of 4, needs 2");
  *placed.add_members() = member(0, kBigNode, 0, "nlp/pretrain-0");
  *placed.add_members() = member(1, kSpotNode, 2, "nlp/pretrain-1");
  state.assignment.add_links("4 GPUs on 2 nodes by infiniband: 50 GB/s");
  state.assignment.add_links(std::string("rather than 4 GPUs in one NVLink domain of node ") + kBigNode + ": 600 GB/s");

  pb::QueueState research, vision;
  research.set_name("research");
  research.set_cohort("all");
  research.set_admitted(1);
  research.set_state("Active");
  (*research.mutable_nominal())["cpu"] = 96'500;
  (*research.mutable_nominal())["memory"] = 1536 * kGi;
  (*research.mutable_nominal())["nvidia.com/gpu"] = 2'000;
  (*research.mutable_used())["cpu"] = 24'000;
  (*research.mutable_used())["memory"] = 192 * kGi;
  (*research.mutable_used())["nvidia.com/gpu"] = 4'000;
  (*research.mutable_borrowed())["nvidia.com/gpu"] = 2'000;
  vision.set_name("vision");
  vision.set_pending(1);
  vision.set_state("Active");
  state.queues = {research, vision, vision};
  state.queues[2].set_name("zoo");
  state.gap.set_at_us(kNow - 42'000'000);
  state.gap.set_capacity_milli(24'000);
  state.gap.set_requested_milli(31'500);
  state.gap.set_allocated_milli(19'250);
  state.gap.set_keeping_milli(21'000);
  state.gap.set_bound_milli(22'500);
  state.gap.set_close(true);
  const auto node_price = [&](const char* model, int gpus, int nodes, int milli) {
    auto& p = *state.gap.add_prices();
    p.set_gpu_model(model);
    p.set_gpus(gpus);
    p.set_nodes(nodes);
    p.set_price_milli(milli);
  };
  node_price("NVIDIA-A100-SXM4-40GB", 8, 2, 7'500);
  node_price("Tesla-T4", 4, 2, 0);
  state.defrag.set_at_us(kNow);
  state.defrag.set_free_before(1);
  state.defrag.set_free_after(3);
  auto& step = *state.defrag.add_steps();
  step.add_nodes("ip-10-0-1-7.ec2.internal");
  step.add_nodes("ip-10-0-1-9.ec2.internal");
  step.set_pods(3);
  step.set_gpu_seconds(5'400);
  step.set_micro_usd(18'360'000);
  const auto move = [&](const char* name, const char* from, const char* to) {
    auto& m = *step.add_moves();
    m.set_uid(std::string("uid-") + name);
    m.set_namespace_("vision");
    m.set_workload(name);
    m.add_from(from);
    m.add_to(to);
  };
  move("resnet", "ip-10-0-1-7.ec2.internal", "ip-10-0-2-4.ec2.internal");
  move("segment", "ip-10-0-1-9.ec2.internal", "ip-10-0-2-4.ec2.internal");
  auto& run = *state.defrag.mutable_run();
  run.set_made_us(kNow);
  run.set_nodes(2);
  run.set_reclaimed(1);
  run.set_moves(3);
  auto& left = *run.add_steps();
  left = step;
  left.mutable_nodes()->RemoveLast();
  run.set_migrating_uid("uid-resnet");
  state.defrag.set_last("Done");
  auto& hours = state.budgets.emplace_back();
  hours.set_name("research");
  hours.set_cluster_queue("research");
  hours.set_unit(pb::BUDGET_GPU_MILLISECONDS);
  hours.set_to_us(1'764'547'200'000'000);
  hours.set_granted(std::int64_t{1200} * 3'600'000);
  hours.set_spent(std::int64_t{850} * 3'600'000 + 1'800'000);
  hours.set_held(std::int64_t{300} * 3'600'000);
  hours.set_free(std::int64_t{49} * 3'600'000 + 1'800'000);
  hours.set_projected(std::int64_t{1310} * 3'600'000);
  auto& dollars = state.budgets.emplace_back();
  dollars.set_name("vision");
  dollars.set_team("vision");
  dollars.set_unit(pb::BUDGET_NANO_USD);
  dollars.set_soft(true);
  dollars.set_owed(12'340'000'000);
  const auto applied = [&](const char* kind, const char* name, const char* manifest) {
    auto& object = state.objects.emplace_back();
    object.set_kind(kind);
    object.set_name(name);
    object.set_manifest(manifest);
  };
  applied("ClusterQueue", "vision",
          R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{"name":"vision"},)"
          R"("spec":{"cohortName":"shared","namespaceSelector":{}}})");
  applied("PriorityClass", "system", R"({"value":2000,"globalDefault":true})");
  applied("WorkloadPriorityClass", "batch", R"({"value":10})");
  applied("WorkloadPriorityClass", "research", R"({"spec":{"value":100}})");

  state.nodes = {node(kBigNode, pb::NODE_READY, "on-demand", 2, ""),
                 node(kSpotNode, pb::NODE_CORDONED, "spot", 2, "health: XID 79"),
                 node("ip-10-0-2-10.ec2.internal", pb::NODE_NOT_READY, "spot", 0, "")};
  auto& cut = state.layouts.emplace_back();
  cut.set_node(kBigNode);
  cut.set_gpu_model("NVIDIA-A100-SXM4-40GB");
  cut.set_label("all-1g.5gb");
  cut.set_state("success");
  (*cut.mutable_planned())["nvidia.com/mig-1g.5gb"] = 56;
  (*cut.mutable_advertised())["nvidia.com/mig-1g.5gb"] = 49;
  cut.set_finding(
      "MIG_CAPACITY_MISMATCH: layout all-1g.5gb has nvidia.com/mig-1g.5gb 56, and the node advertises nvidia.com/mig-1g.5gb 49");
  auto& queued = state.layouts.emplace_back();
  queued.set_node(kSpotNode);
  queued.set_gpu_model("NVIDIA-A100-SXM4-40GB");
  (*queued.mutable_advertised())["nvidia.com/gpu"] = 8;
  auto& order = *queued.mutable_order();
  order.set_node(kSpotNode);
  order.set_layout("all-1g.5gb");
  (*order.mutable_capacity())["nvidia.com/mig-1g.5gb"] = 56;
  order.set_phase("waiting");
  order.set_reason("the window has not started");
  order.set_from_us(kNow + 5 * kHour);
  order.set_until_us(kNow + 7 * kHour);
  *state.layouts_ordered.add_orders() = order;
  state.layouts_ordered.add_layouts("half");
  state.layouts_ordered.add_warnings("node x: layout all-1g.5gb: H100-80GB has no profile 1g.5gb");
  state.claims = {claim("training-x1", pb::INSTANCE_RUNNING, 3 * kHour, kSpotNode, "for nlp/pretrain"),
                  claim("training-x2", pb::INSTANCE_REQUESTED, 20 * kSecond, "", "for vision/finetune"),
                  claim("training-x3", pb::INSTANCE_FAILED, 5 * kMinute, "", "InsufficientInstanceCapacity")};
  state.plan.set_as_of_us(kNow);
  state.plan.mutable_demand()->add_items()->set_uid("u-2");
  *state.plan.add_requested() = state.claims[1];
  state.plan.add_explanations(
      "vision/finetune is pending for 40 s: 1 instance(s) of p4d.24xlarge spot are expected by 2026-11-21T10:03:00Z");
  state.plan.add_explanations(
      "nlp/pretrain is pending for 20 s: NodePool training has the limit nvidia.com/gpu 64: 64 in use, 8 more needed; raise spec.limits of the NodePool");

  state.readings = {reading(kBigNode, 0, 0.97, "pretrain-0", 3 * kSecond), reading(kBigNode, 5, 0, "", 65 * kSecond),
                    reading(kSpotNode, 2, 0.5, "pretrain-1", 4 * kSecond)};

  state.statement.set_as_of_us(kNow);
  *state.statement.add_lines() = pays("(idle)", 1'000'000'001, 3'600'000'000);
  *state.statement.add_lines() = pays("nlp", 131'089'012'345, 14'400'000'000 + 1'800'000);
  state.statement.set_total_nano_usd(132'089'012'346);
  state.statement.set_provider_nano_usd(132'089'012'346);
  state.statement.set_open_instances(2);
  state.prices = {price("p4d.24xlarge", "on-demand", "", 32'772'600'000, "built-in"),
                  price("p4d.24xlarge", "spot", "us-east-1a", 9'800'000'001, "market"),
                  price("", "spot", "", 5'000'000'000, "PricePlan/default")};

  state.events = {event("qm.workload", "u-2", 1, "vision/finetune attempt 1 Pending"),
                  event("qm.placement", "u-1/1", 4, "nlp/pretrain attempt 1 Bound on 2 pods"),
                  event("qm.spot", "notice/ip-10-0-2-9.ec2.internal", 1, "taken\x1b[2J at\n2026-11-21T10:02:00Z")};
}

}  // namespace qm::cli
