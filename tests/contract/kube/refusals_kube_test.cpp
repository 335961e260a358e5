// Invalid objects that the API server refuses, with their Status, and the deletion of a namespace.
#include "kube_under_test.hpp"
#include "qm/config/manifest.hpp"
#include "qm/http/http.hpp"

#include <algorithm>

namespace qm::kube {
namespace refusals_kube_test {

using namespace resources;

const Resource kConfigMaps{"", "v1", "configmaps", true};
constexpr const char* kSpec =
    R"("template":{"spec":{"restartPolicy":"Never","containers":[{"name":"m","image":"example/none:1"}]}})";

Json json(const std::string& text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

/// A suspended Job of this name; `more` is added to its spec.
std::string job(const std::string& name, const std::string& more = {}, const std::string& metadata = {}) {
  return fmt::format(
      R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{}"{}}},"spec":{{"suspend":true,{}{}}}}})", name,
      metadata, more, kSpec);
}

class KubeRefusals : public KubeContract {
 protected:
  http::Response send(const std::string& method, const std::string& target, const std::string& body = {},
                      const std::string& type = "application/json") {
    const auto options = server().options();
    http::ClientOptions raw;
    raw.ca_file = options.ca_file;
    http::Request request;
    request.method = method;
    request.target = target;
    request.body = body;
    request.headers.set("Content-Type", type);
    if (!options.token.empty()) request.headers.set("Authorization", "Bearer " + options.token);
    auto answer = http::Client(options.server, raw).send(request);
    EXPECT_TRUE(answer) << target;
    return answer ? std::move(*answer) : http::Response{0, {}, {}};
  }
  http::Response post_job(const std::string& body, const std::string& query = {}) {
    return send("POST", kJobs.path(ns()) + query, body);
  }
  /// "400 BadRequest: text"
  static std::string reported(const http::Response& answer) {
    const auto status = Json::parse(answer.body).value_or(Json());
    return fmt::format("{} {}: {}", answer.status, status["reason"].string(), status["message"].string());
  }
};

TEST_F(KubeRefusals, UnknownGroupsVersionsAndKindsAreNotFound) {
  for (const auto* path :
       {"/apis/batch/v2/namespaces/default/jobs", "/api/v2/pods", "/apis/batch/v1/namespaces/default/widgets"}) {
    for (const auto* method : {"GET", "POST"}) {
      const auto answer = send(method, path, method == std::string("POST") ? job("j") : "");
      EXPECT_EQ(reported(answer), "404 NotFound: the server could not find the requested resource") << method << path;
      EXPECT_EQ(json(answer.body)["details"], Json::object()) << path;
    }
  }
  for (const auto* path : {"/apis/no.such/v1/things", "/nothing"}) {
    const auto answer = send("GET", path);
    EXPECT_EQ(answer.status, 404);
    EXPECT_EQ(answer.body, "404 page not found\n");
  }
}

TEST_F(KubeRefusals, ObjectsOfAnotherKindOrVersionAreBadRequests) {
  for (const auto* body : {R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}})",
                           R"({"apiVersion":"batch/v2","kind":"Job","metadata":{"name":"a"}})"}) {
    const auto text = reported(post_job(body));
    EXPECT_TRUE(text.starts_with("400 BadRequest: ")) << text;
    EXPECT_NE(text.find("cannot be handled as a Job: "), std::string::npos) << text;
  }
  const auto spec = job("silent");
  auto silent = json(spec);
  silent.erase("kind");
  silent.erase("apiVersion");
  EXPECT_EQ(post_job(silent.dump()).status, 201) << "the path determines it";
}

TEST_F(KubeRefusals, UnknownFieldsAreRefusedOrWarnedOfOrDropped) {
  const auto strange = job("strange", R"("paralelism":2,)");
  const std::string text = "unknown field \"spec.paralelism\"";
  EXPECT_EQ(reported(post_job(strange, "?fieldValidation=Strict")),
            "400 BadRequest: Job in version \"v1\" cannot be handled as a Job: strict decoding error: " + text);
  EXPECT_EQ(reported(post_job(job("two", R"("foo":1,"parallelism":1,"parallelism":2,)"), "?fieldValidation=Strict")),
            "400 BadRequest: Job in version \"v1\" cannot be handled as a Job: strict decoding error: "
            "unknown field \"spec.foo\", duplicate field \"spec.parallelism\"");
  const auto supported = R"(supported values: "", "Ignore", "Strict", "Warn")";
  EXPECT_EQ(reported(post_job(strange, "?fieldValidation=Maybe")),
            std::string("422 Invalid: CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: "
                        "\"Maybe\": ") +
                supported);
  EXPECT_FALSE(client().get(kJobs, ns(), "strange")) << "nothing is stored of what is refused";
  const auto warned = post_job(strange);
  EXPECT_EQ(warned.status, 201);
  EXPECT_EQ(warned.headers.get("Warning"), R"(299 - "unknown field \"spec.paralelism\"")");
  EXPECT_TRUE(must_get(kJobs, "strange")["spec"]["paralelism"].is_null());
  const auto ignored = post_job(job("ignored", R"("paralelism":2,)"), "?fieldValidation=Ignore");
  EXPECT_EQ(ignored.status, 201);
  EXPECT_EQ(ignored.headers.get("Warning"), "");

  const std::string patch = R"({"spec":{"foo":1}})", merge = "application/merge-patch+json";
  const auto path = kJobs.path(ns(), "strange");
  const auto refused = send("PATCH", path + "?fieldValidation=Strict", patch, merge);
  EXPECT_EQ(refused.status, 422);
  EXPECT_NE(refused.body.find(R"(strict decoding error: unknown field \"spec.foo\")"), std::string::npos);
  const auto patched = send("PATCH", path, patch, merge);
  EXPECT_EQ(patched.status, 200);
  EXPECT_EQ(patched.headers.get("Warning"), R"(299 - "unknown field \"spec.foo\"")");
}

TEST_F(KubeRefusals, ValuesOfAnotherTypeAreBadRequests) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("parallelism":"2")",
       "json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32"},
      {R"("parallelism":2.5)",
       "json: cannot unmarshal number 2.5 into Go struct field JobSpec.spec.parallelism of type int32"},
      {R"("backoffLimit":99999999999)",
       "json: cannot unmarshal number 99999999999 into Go struct field JobSpec.spec.backoffLimit of type int32"},
      {R"("completions":{})",
       "json: cannot unmarshal object into Go struct field JobSpec.spec.completions of type int32"},
      {R"("manualSelector":"yes")",
       "json: cannot unmarshal string into Go struct field JobSpec.spec.manualSelector of type bool"}};
  for (const auto& [field, text] : cases) {
    EXPECT_EQ(reported(post_job(job("a", std::string(field) + ","))),
              std::string("400 BadRequest: Job in version \"v1\" cannot be handled as a Job: ") + text);
  }
  const auto label = reported(post_job(job("a", "", R"(,"labels":{"n":1})")));
  EXPECT_NE(label.find("into Go struct field ObjectMeta.metadata.labels of type string"), std::string::npos) << label;
  auto pods = json(job("a"));
  pods.set("spec").set("template").set("spec").set("containers", Json::object());
  EXPECT_EQ(
      reported(post_job(pods.dump())),
      "400 BadRequest: Job in version \"v1\" cannot be handled as a Job: json: cannot unmarshal object into Go struct field "
      "PodSpec.spec.template.spec.containers of type []v1.Container");
  EXPECT_EQ(post_job("{").status, 400);
}

/// Field and reason of each cause, once.
std::vector<std::string> causes_of(const http::Response& answer) {
  std::vector<std::string> out;
  const auto status = Json::parse(answer.body).value_or(Json());
  for (const auto& cause : status["details"]["causes"].items()) {
    auto text = cause["field"].string() + " " + cause["message"].string();
    text = text.substr(0, text.find(" (e.g."));
    if (std::ranges::find(out, text) == out.end()) out.push_back(std::move(text));
  }
  std::ranges::sort(out);
  return out;
}

using Texts = std::vector<std::string>;
constexpr const char* kSubdomain =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character";
constexpr const char* kValue =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character";

TEST_F(KubeRefusals, BadNamesAndLabelsAreNamed) {
  const std::string name70(70, 'a'), name300(300, 'a');
  const auto bad = post_job(job("Bad_Name"));
  EXPECT_EQ(bad.status, 422);
  EXPECT_EQ(causes_of(bad), (Texts{fmt::format("metadata.name Invalid value: \"Bad_Name\": {}", kSubdomain)}));
  const auto status = json(bad.body);
  EXPECT_EQ(status["details"]["name"].string(), "Bad_Name");
  EXPECT_EQ(status["details"]["group"].string(), "batch");
  EXPECT_EQ(status["details"]["kind"].string(), "Job");
  EXPECT_EQ(causes_of(post_job(job(name70))),
            (Texts{fmt::format("spec.template.labels Invalid value: \"{}\": must be no more than 63 bytes", name70)}));
  EXPECT_EQ(causes_of(post_job(job(name300))),
            (Texts{fmt::format("metadata.name Invalid value: \"{}\": must be no more than 253 characters", name300),
                   fmt::format("spec.template.labels Invalid value: \"{}\": must be no more than 63 bytes", name300)}));
  EXPECT_EQ(causes_of(post_job(job("größe"))),
            (Texts{fmt::format("metadata.name Invalid value: \"größe\": {}", kSubdomain),
                   fmt::format("spec.template.labels Invalid value: \"größe\": {}", kValue)}));
  EXPECT_EQ(
      causes_of(post_job(job(std::string(62, 'a'), R"("completionMode":"Indexed","completions":3,"parallelism":1,)"))),
      (Texts{
          fmt::format("metadata.name Invalid value: \"{0}\": will not able to create pod with invalid DNS label: {0}-2",
                      std::string(62, 'a'))}));
  EXPECT_EQ(
      causes_of(post_job(job("a", "", R"(,"labels":{"team":"größe","a/b/c":"x"},"annotations":{"/x":"1"})"))),
      (Texts{
          "metadata.annotations Invalid value: \"/x\": prefix part must be non-empty",
          "metadata.labels Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or "
          "'.', and must start and end with an alphanumeric character",
          fmt::format("metadata.labels Invalid value: \"größe\": {}", kValue)}));
  EXPECT_EQ(causes_of(send("POST", kNamespaces.path(), R"({"metadata":{"name":"a.b"}})")),
            (Texts{"metadata.name Invalid value: \"a.b\": must not contain dots"}));
  EXPECT_EQ(reported(post_job(job(""))),
            "422 Invalid: Job.batch \"\" is invalid: metadata.name: Required value: name or generateName is required");

  must_create(kConfigMaps, json(R"({"metadata":{"name":"c"}})"));
  const auto patched = client().merge_patch(kConfigMaps, ns(), "c", json(R"({"metadata":{"labels":{"a":"größe"}}})"));
  ASSERT_FALSE(patched);
  EXPECT_EQ(patched.error().field, "metadata.labels");
}

TEST_F(KubeRefusals, EachFaultOfAJobIsACause) {
  const auto wrong = post_job(job("a", R"("parallelism":-1,"completionMode":"Index",)"));
  EXPECT_EQ(wrong.status, 422);
  EXPECT_EQ(causes_of(wrong),
            (Texts{"spec.completionMode Unsupported value: \"Index\": supported values: \"NonIndexed\", \"Indexed\"",
                   "spec.parallelism Invalid value: -1: must be greater than or equal to 0"}));
  EXPECT_EQ(causes_of(post_job(job("a", R"("completionMode":"Indexed","parallelism":2,)"))),
            (Texts{"spec.completions Required value: when completion mode is Indexed"}));

  const auto with_containers = [&](const char* containers) {
    auto object = json(job("a"));
    object.set("spec").set("template").set("spec").set("containers", json(containers));
    return causes_of(post_job(object.dump()));
  };
  const std::string at = "spec.template.spec.containers";
  EXPECT_EQ(with_containers("[]"), (Texts{at + " Required value"}));
  EXPECT_EQ(with_containers(R"([{"name":"m","image":"x"},{"name":"m"}])"),
            (Texts{at + "[1].image Required value", at + "[1].name Duplicate value: \"m\""}));
  EXPECT_EQ(with_containers(R"([{"name":"m","image":"x","resources":{"limits":{"nvidia.com/gpu":"500m"}}}])"),
            (Texts{at + "[0].resources.limits[nvidia.com/gpu] Invalid value: \"500m\": must be an integer"}));
  EXPECT_EQ(with_containers(R"([{"name":"m","image":"x","resources":{"requests":{"cpu":2,"nvidia.com/gpu":1},
                                                                    "limits":{"cpu":"1"}}}])"),
            (Texts{at + "[0].resources.limits Required value: Limit must be set for non overcommitable resources",
                   at + "[0].resources.requests Invalid value: \"2\": must be less than or equal to cpu limit of 1"}));
  auto restarts = json(job("a"));
  restarts.set("spec").set("template").set("spec").erase("restartPolicy");
  EXPECT_EQ(causes_of(post_job(restarts.dump())),
            (Texts{"spec.template.spec.restartPolicy Required value: valid values: \"OnFailure\", \"Never\""}));
}

const Resource kBudget{"quartermaster.dev", "v1alpha1", "budgets", false};

/// Our custom kinds, with the definitions that the chart ships. A server that already has them keeps its own.
class KubeDefinitions : public KubeRefusals {
 protected:
  void SetUp() override {
    KubeRefusals::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    const auto loaded = config::load_path(std::string(QM_SOURCE_DIR) + "/deploy/crds/quartermaster.yaml");
    for (const auto& object : loaded.objects) {
      const auto made = client().create(kDefinitions, "", object.document.content);
      ASSERT_TRUE(made || made.error().code == Code::kAlreadyExists) << made.error().to_string();
      if (made) made_.push_back(name_of(*made));
    }
    ASSERT_TRUE(
        testing::wait_until([&] { return client().list_all(kBudget, "").has_value(); }, std::chrono::seconds(30)));
  }
  void TearDown() override {
    for (const auto& name : made_) (void)client().remove(kDefinitions, "", name, {});
    for (const auto& name : made_) {
      EXPECT_TRUE(testing::wait_until([&] { return !client().get(kDefinitions, "", name); }, std::chrono::seconds(60)));
    }
    KubeRefusals::TearDown();
  }
  http::Response post_budget(const std::string& spec, const std::string& query = {}) {
    return send(
        "POST", kBudget.path() + query,
        fmt::format(
            R"({{"apiVersion":"quartermaster.dev/v1alpha1","kind":"Budget","metadata":{{"name":"{}"}},"spec":{}}})",
            name_, spec));
  }
  /// The causes without those that the server adds when it could not evaluate the CEL rules.
  static std::vector<std::string> faults_of(const http::Response& answer) {
    auto out = causes_of(answer);
    std::erase_if(
        out, [](const std::string& text) { return text.find("some validation rules were not checked") != text.npos; });
    return out;
  }
  const std::string name_ = "contract-budget";
  std::vector<std::string> made_;
};
constexpr const char* kGood = R"({"team":"a","unit":"GPUHours","amount":10,"period":"Month"})";

TEST_F(KubeDefinitions, UnknownFieldsOfCustomKindsAreRefusedOrWarnedOfOrDropped) {
  const auto strange = R"({"team":"a","unit":"GPUHours","amount":10,"period":"Month","perod":"Week"})";
  const std::string text = "unknown field \"spec.perod\"";
  const auto strict = post_budget(strange, "?fieldValidation=Strict");
  EXPECT_EQ(strict.status, 400);
  EXPECT_NE(reported(strict).find("strict decoding error: " + text), std::string::npos) << reported(strict);
  const auto warned = post_budget(strange);
  EXPECT_EQ(warned.status, 201) << warned.body;
  EXPECT_EQ(warned.headers.get("Warning"), R"(299 - "unknown field \"spec.perod\"")");
  EXPECT_TRUE(json(warned.body)["spec"]["perod"].is_null());
  EXPECT_EQ(json(warned.body)["spec"]["period"].string(), "Month");
  const auto patched =
      send("PATCH", kBudget.path({}, name_), R"({"spec":{"carryOverPercent":101}})", "application/merge-patch+json");
  EXPECT_EQ(patched.status, 422);
  EXPECT_EQ(
      faults_of(patched),
      (Texts{
          "spec.carryOverPercent Invalid value: 101: spec.carryOverPercent in body should be less than or equal to 100"}));
  EXPECT_EQ(send("DELETE", kBudget.path({}, name_)).status, 200);
}

TEST_F(KubeDefinitions, EachFaultOfACustomKindIsACause) {
  const auto with = [&](const char* field, const char* value) {
    auto spec = json(kGood);
    spec.set(field, json(value));
    return faults_of(post_budget(spec.dump(), "?dryRun=All"));
  };
  EXPECT_EQ(post_budget(kGood, "?dryRun=All").status, 201);
  EXPECT_EQ(with("unit", "\"Euro\""),
            (Texts{R"(spec.unit Unsupported value: "Euro": supported values: "GPUHours", "USD")"}));
  EXPECT_EQ(
      with("carryOverPercent", "\"7\""),
      (Texts{
          R"(spec.carryOverPercent Invalid value: "string": spec.carryOverPercent in body must be of type integer: "string")"}));
  EXPECT_EQ(
      with("carryOverPercent", "-1"),
      (Texts{
          "spec.carryOverPercent Invalid value: -1: spec.carryOverPercent in body should be greater than or equal to 0"}));
  EXPECT_EQ(with("utcOffset", "\"2\""),
            (Texts{"spec.utcOffset Invalid value: \"2\": spec.utcOffset in body should match "
                   "'^[+-](0[0-9]|1[0-4]):[0-5][0-9]$'"}));
  EXPECT_EQ(with("team", "\"\""),
            (Texts{R"(spec.team Invalid value: "": spec.team in body should be at least 1 chars long)"}));
  EXPECT_EQ(with("team", ("\"" + std::string(64, 'a') + "\"").c_str()),
            (Texts{"spec.team Too long: may not be more than 63 bytes"}));
  EXPECT_EQ(faults_of(post_budget("{}", "?dryRun=All")),
            (Texts{"spec.amount Required value", "spec.period Required value", "spec.unit Required value"}));
  const auto list = with("amount", "[]");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_NE(list[0].find("spec.amount in body must be of type integer,string: \"array\""), std::string::npos)
      << list[0];
  EXPECT_EQ(send("POST", "/apis/quartermaster.dev/v1/budgets", "{}").status, 404);
}

TEST_F(KubeRefusals, AJobHasCompletionsWhereItHasNoParallelism) {
  const auto spec = json(post_job(job("one")).body)["spec"];
  EXPECT_EQ(spec["parallelism"].integer(), 1);
  EXPECT_EQ(spec["completions"].integer(), 1);
  const auto queue = json(post_job(job("queue", R"("parallelism":2,)")).body)["spec"];
  EXPECT_EQ(queue["parallelism"].integer(), 2);
  EXPECT_TRUE(queue["completions"].is_null()) << "its pods share a queue of work";
}

TEST_F(KubeRefusals, ADryRunStoresNothing) {
  const auto dry = post_job(job("dry"), "?dryRun=All");
  EXPECT_EQ(dry.status, 201);
  EXPECT_FALSE(uid_of(json(dry.body)).empty());
  EXPECT_EQ(post_job(job("Bad"), "?dryRun=All").status, 422);
  EXPECT_EQ(client().get(kJobs, ns(), "dry").error().code, Code::kNotFound);
  EXPECT_EQ(post_job(job("dry"), "?dryRun=Some").status, 422);
}

TEST_F(KubeRefusals, WhatIsAbsentIsNamed) {
  const auto absent = send("GET", kJobs.path(ns(), "absent"));
  EXPECT_EQ(reported(absent), "404 NotFound: jobs.batch \"absent\" not found");
  EXPECT_EQ(json(absent.body)["details"], json(R"({"name":"absent","group":"batch","kind":"jobs"})"));
  EXPECT_EQ(reported(send("POST", kJobs.path("no-such-namespace"), job("a"))),
            "404 NotFound: namespaces \"no-such-namespace\" not found");
  EXPECT_EQ(reported(send("PUT", kJobs.path(ns()), job("a"))),
            "405 MethodNotAllowed: the server does not allow this method on the requested resource");
}

TEST_F(KubeRefusals, ANamespaceGoesAfterItsObjects) {
  QM_NEEDS_CONTROLLERS();
  const auto space = cluster_name(kNamespaces, "going");
  must_create(kNamespaces, Json::object({{"metadata", Json::object({{"name", space}})}}));
  ASSERT_TRUE(testing::wait_until([&] { return server().has_settled(client(), space); }));
  const auto make = [&](const Resource& r, const std::string& object) {
    const auto made = client().create(r, space, json(object));
    EXPECT_TRUE(made) << made.error().to_string();
  };
  make(kConfigMaps, R"({"metadata":{"name":"held","finalizers":["contract.example/hold"]}})");
  make(kConfigMaps, R"({"metadata":{"name":"free"}})");
  make(kJobs, job("j"));
  make(kPods, pod("p").dump());

  ASSERT_TRUE(client().remove(kNamespaces, "", space, {}));
  EXPECT_EQ(must_get(kNamespaces, space).path("status.phase").string(), "Terminating");
  EXPECT_TRUE(must_get(kNamespaces, space)["metadata"].contains("deletionTimestamp"));
  const auto late = send("POST", kConfigMaps.path(space), R"({"metadata":{"name":"late"}})");
  EXPECT_EQ(reported(late),
            fmt::format("403 Forbidden: configmaps \"late\" is forbidden: unable to create new content in namespace {} "
                        "because it is being terminated",
                        space));
  EXPECT_EQ(json(late.body)["details"]["causes"].at(0)["reason"].string(), "NamespaceTerminating");
  EXPECT_EQ(reported(send("POST", kNamespaces.path(), fmt::format(R"({{"metadata":{{"name":"{}"}}}})", space))),
            fmt::format("409 AlreadyExists: object is being deleted: namespaces \"{}\" already exists", space));
  const auto left = [&](const Resource& r) { return client().list_all(r, space)->size(); };
  EXPECT_TRUE(testing::wait_until([&] { return left(kConfigMaps) <= 1 && left(kJobs) == 0 && left(kPods) == 0; },
                                  std::chrono::seconds(60)));
  EXPECT_TRUE(client().get(kConfigMaps, space, "held")) << "a finalizer holds it";
  EXPECT_TRUE(client().get(kNamespaces, "", space));
  EXPECT_TRUE(client().merge_patch(kConfigMaps, space, "held", json(R"({"metadata":{"finalizers":null}})")));
  EXPECT_TRUE(testing::wait_until([&] { return !client().get(kNamespaces, "", space); }, std::chrono::seconds(60)));
  EXPECT_TRUE(client().list_all(kConfigMaps, space)->empty());

  for (const auto* name : {"default", "kube-system"}) {
    EXPECT_EQ(reported(send("DELETE", kNamespaces.path({}, name))),
              fmt::format("403 Forbidden: namespaces \"{}\" is forbidden: this namespace may not be deleted", name));
  }
}

}  // namespace refusals_kube_test
}  // namespace qm::kube
