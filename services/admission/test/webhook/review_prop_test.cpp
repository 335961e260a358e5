// The parser of reviews and all code behind it, on reviews with every kind of damage. Every input has a response, the
// response is JSON, and a repeated mutation changes nothing more. ./qm fuzz runs it with new seeds.
#include "qm/admission/webhook/review.hpp"

#include "qm/admission/webhook/server.hpp"
#include "qm/admission_policy/policy_file.hpp"
#include "reviews.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::admission::webhook {
namespace review_prop_test {

const std::vector<std::string>& words_to_put() {
  static const std::vector<std::string> all{"null",
                                            "{}",
                                            "[]",
                                            "\"\"",
                                            "-1",
                                            "1e400",
                                            "9223372036854775808",
                                            "\"9223372036854775807Ei\"",
                                            "\"0.5\"",
                                            "true",
                                            "\"\\u0000\"",
                                            "\"\xff\"",
                                            "[[[[]]]]",
                                            "\"nvidia.com/gpu\"",
                                            "{\"nvidia.com/gpu\":2}",
                                            "\"Exists\""};
  return all;
}

/// A pod or Job with a value in every field that a rule checks.
std::string whole_review(bool job) {
  auto pod = parsed(R"({"metadata":{"name":"p","labels":{"workload-type":"training","environment":"prod","slo":"x"},
      "annotations":{"kueue.x-k8s.io/pod-group-total-count":"4"}},"spec":{"priorityClassName":"high","nodeSelector":{"pool":"a",
      "node.kubernetes.io/instance-type":"g5.2xlarge"},"tolerations":[{"key":"nvidia.com/gpu","operator":"Exists"},{"operator":"Exists"}],
      "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[
      {"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}]}]}}},"volumes":[{"name":"v","hostPath":{"path":"/"}}],
      "initContainers":[{"name":"i","restartPolicy":"Always","resources":{"limits":{"nvidia.com/gpu":"1"}}}],
      "containers":[{"name":"m","args":["--tensor-parallel-size=4","--master_addr=x"],"env":[{"name":"WORLD_SIZE","value":"8"}],
      "volumeMounts":[{"name":"v","mountPath":"/etc/nccl-topo.xml"}],"resources":{"requests":{"cpu":"4","memory":"16Gi",
      "nvidia.com/gpu":"2"},"limits":{"nvidia.com/gpu":"1","nvidia.com/mig-1g.10gb":"1"}}}]}})");
  if (!job) return review_of(pod, "Pod");
  auto object = parsed(R"({"kind":"Job","metadata":{"name":"j"},"spec":{"parallelism":4}})");
  object.set("spec").set("template", pod);
  return review_of(object, "Job", "UPDATE", object);
}

const Settings& settings() {
  static const Settings all = [] {
    Settings out;
    const auto read = read_policy(R"(apiVersion: policy.quartermaster.dev/v1alpha1
kind: WebhookPolicy
spec:
  mode: mutate
  requiredLabels: [{key: team}]
  pools:
  - {name: a, nodeSelector: {pool: a}, node: {gpus: 8, cpu: "96", memory: 1Ti}, sharing: mps, serves: [inference]}
  gangs: {topologyMap: m, topology: rack}
  priorities: {classes: [{name: high, workloadTypes: [inference]}], defaults: {training: low}}
)",
                                  "p.yaml", out);
    RC_ASSERT(read.has_value());
    return out;
  }();
  return all;
}

View view() {
  View out;
  auto& home = out.namespaces["team"];
  home.labels = {{"compliance", "pci"}, {"pod-security.kubernetes.io/enforce", "restricted"}, {"team", "a"}};
  home.annotations = {{std::string(kCpuPerGpu), "8"}, {std::string(kGpuNodes), "gpu=yes"}};
  out.local_queues["team"] = {"default"};
  out.quotas["team"] = {
      *ResourceQuota::read(parsed(R"({"metadata":{"name":"q"},"spec":{"hard":{"requests.nvidia.com/gpu":4},
      "scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["x"]}]}}})"))};
  return out;
}

/// Approximate starts of JSON values: after a colon, a comma or a bracket.
std::vector<std::size_t> places(const std::string& text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ':' || text[i] == ',' || text[i] == '[') out.push_back(i + 1);
  }
  return out;
}
std::size_t end_of_value(const std::string& text, std::size_t from) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth < 0 || (depth == 0 && c == ',')) return i;
  }
  return text.size();
}

std::string damaged() {
  auto text = whole_review(*rc::gen::arbitrary<bool>());
  const auto wounds = *rc::gen::inRange(0, 6);
  for (int i = 0; i < wounds && !text.empty(); ++i) {
    const auto all = places(text);
    if (*rc::gen::inRange(0, 8) == 0 || all.empty()) {  // a random byte
      const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
      text[at] = static_cast<char>(*rc::gen::inRange(0, 256));
    } else if (*rc::gen::inRange(0, 12) == 0) {
      text.resize(*rc::gen::inRange<std::size_t>(0, text.size()));
    } else {  // replaces one value by another, so that most results are still JSON
      const auto at = *rc::gen::elementOf(all);
      text.replace(at, end_of_value(text, at) - at, *rc::gen::elementOf(words_to_put()));
    }
  }
  return text;
}

RC_GTEST_PROP(ReviewReader, AnswersAnyInput, ()) {
  http::Request request;
  request.method = "POST";
  request.target = *rc::gen::element<std::string>("/mutate", "/validate");
  request.body = damaged();
  const auto answer = respond(request, settings(), view());
  RC_ASSERT(answer.status == 200 || answer.status == 400);
  RC_ASSERT(answer.body.size() < 256 * 1024U);
  if (answer.status != 200) return;
  const auto reported = Json::parse(answer.body);
  RC_ASSERT(reported.has_value());
  RC_ASSERT((*reported)["response"]["uid"].string() == Review::read(request.body)->uid());
}

RC_GTEST_PROP(ReviewReader, MutationIsIdempotent, ()) {
  const auto body = damaged();
  const auto review = Review::read(body);
  RC_PRE(review.has_value());
  auto subject = review->subject();
  RC_PRE(subject.object->is_object());
  subject.operation = Operation::kCreate;
  const auto home = view();
  const auto once = mutate(subject, settings(), home);
  Subject again = subject;
  again.object = &once;
  RC_ASSERT(mutate(again, settings(), home).dump() == once.dump());
}

}  // namespace review_prop_test
}  // namespace qm::admission::webhook
