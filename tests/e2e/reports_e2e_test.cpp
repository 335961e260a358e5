// The inputs of user reports (field/ of the reference data) against a running suite: each object gets an answer, and
// each report has the result that a user of Kubernetes and Kueue expects.
#include "qm/config/yaml_reader.hpp"
#include "support.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace qm::e2e {
namespace reports_e2e_test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class UserReports : public SharedSuite<UserReports> {
 public:
  static std::vector<std::string> flags() { return {"--nodes", "2", "--speed", "20"}; }
  static void SetUpTestSuite() {
    if (!testing::shared_dir()) return;
    SharedSuite::SetUpTestSuite();
    ASSERT_NE(shared(), nullptr) << "the suite is not up";
    for (const char* flavor : {"fx", "gpu"}) {
      const auto made = create(*Json::parse(fmt::format(
          R"({{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {{"name": "{}"}}, "spec": {{}}}})",
          flavor)));
      ASSERT_TRUE(made) << made.error().to_string();
    }
    created().clear();
  }

 protected:
  void SetUp() override {
    if (!testing::shared_dir()) GTEST_SKIP() << testing::no_shared();
    SharedSuite::SetUp();
  }
  /// Deletes the objects of the test, so that the next test has the whole fleet.
  void TearDown() override {
    if (!shared()) return;
    remove_created();
  }

  static std::vector<std::string>& created() {
    static std::vector<std::string> targets;
    return targets;
  }
  /// Deletes like kubectl: without a policy the pods of a Job are orphaned.
  static void remove(const std::string& target) {
    (void)suite().kube("DELETE", target + "?propagationPolicy=Background");
  }
  static void remove_created() {
    for (const auto& target : created()) remove(target);
    created().clear();
  }
  static std::string folder(const std::string& name) { return *testing::shared_dir() + "/field/" + name; }
  static std::vector<std::string> files(const std::string& name, const std::function<bool(const fs::path&)>& wanted) {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder(name)))
      if (entry.is_regular_file() && wanted(entry.path())) out.push_back(entry.path());
    std::ranges::sort(out);
    return out;
  }
  static bool is_queue(const fs::path& file) { return file.filename() == "queue.yaml"; }
  static std::vector<config::Document> documents(const std::string& file) {
    std::ifstream in(file);
    std::stringstream text;
    text << in.rdbuf();
    return config::read_yaml(text.str(), file).documents;
  }

  static std::string collection_of(const Json& object) {
    const auto version = object["apiVersion"].string();
    std::string plural = object["kind"].string() + "s";
    std::ranges::transform(plural, plural.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto& ns = object["metadata"]["namespace"];
    const bool cluster = version.starts_with("kueue.x-k8s.io") && plural != "localqueues";
    return fmt::format("/{}/{}{}/{}", version.find('/') == std::string::npos ? "api" : "apis", version,
                       cluster ? "" : "/namespaces/" + (ns.is_string() ? ns.string() : "default"), plural);
  }
  static std::string target_of(const Json& object) {
    return collection_of(object) + "/" + object["metadata"]["name"].string();
  }
  static std::string full_name(const Json& object) { return "default/" + object["metadata"]["name"].string(); }

  /// Creates like kubectl. Fails with the API server's Status if it refuses the object.
  static Status create(const Json& object) {
    QM_ASSIGN(const auto answer, suite().kube("POST", collection_of(object), object));
    if (answer.status != 201) return fail(Code::kInvalid, "{} {}", answer.status, answer.body);
    created().push_back(target_of(object));
    return {};
  }
  static void create_all(const std::string& file) {
    for (const auto& document : documents(file)) {
      const auto made = create(document.content);
      ASSERT_TRUE(made) << file << ": " << made.error().to_string();
    }
  }
  /// Creates a Job that runs and a Job that is pending because of it. The first is admitted before the second exists:
  /// two Jobs of the same second have no order.
  static void create_running_and_pending(const std::string& file) {
    const auto jobs = documents(file);
    ASSERT_EQ(jobs.size(), 2U) << file;
    for (const auto& job : jobs) {
      const auto made = create(job.content);
      ASSERT_TRUE(made) << file << ": " << made.error().to_string();
      if (&job == &jobs.front()) expect_phase(job.content["metadata"]["name"].string(), pb::ADMITTED);
    }
  }
  /// Waits until admission knows the queue: Jobs of the same second that wait for an unknown queue are not ordered.
  static void create_queue(const std::string& folder, const std::string& name) {
    // The queue of that name of an earlier test may still be terminating.
    ASSERT_TRUE(eventually([&] { return !has(output({"queues"}), name); }));
    create_all(folder + "/queue.yaml");
    ASSERT_TRUE(eventually([&] { return has(output({"queues"}), name); }));
  }
  static void change(const std::string& target, const std::string& merge_patch) {
    const auto answer = suite().kube("PATCH", target, *Json::parse(merge_patch));
    ASSERT_TRUE(answer) << answer.error().to_string();
    ASSERT_EQ(answer->status, 200) << answer->body;
  }
  static std::string output(std::vector<std::string> args) { return suite().qmctl(std::move(args)).output; }
  /// Runs a line of a page in the folder: "qmctl ..." or "kubectl create -f FILE". Paths in its output are relative
  /// to the folder.
  static Ran run_line(const std::string& line, const std::string& dir) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;)
      words.push_back(words.size() > 1 && word.ends_with(".yaml") ? dir + "/" + word : word);
    Ran ran;
    if (words.front() == "kubectl") {
      for (const auto& document : documents(words.back())) {
        const auto made = create(document.content);
        ran.output += made ? "" : made.error().to_string() + "\n";
      }
      ran.code = ran.output.empty() ? 0 : 1;
    } else {
      ran = suite().qmctl({words.begin() + 1, words.end()});
    }
    for (auto at = ran.output.find(dir + "/"); at != std::string::npos; at = ran.output.find(dir + "/"))
      ran.output.erase(at, dir.size() + 1);
    return ran;
  }
  static std::string why(const std::string& name) { return output({"why", "default/" + name}); }
  static bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }
  /// Within a time limit the output of `why` contains all of these words.
  static void expect_why(const std::string& name, const std::vector<std::string>& words) {
    std::string reported;
    EXPECT_TRUE(eventually([&] {
      reported = why(name);
      return std::ranges::all_of(words, [&](const auto& word) { return has(reported, word); });
    })) << fmt::format("{}", fmt::join(words, ", "))
        << " are not in\n"
        << reported;
  }
  static pb::WorkloadPhase phase(const std::string& name) {
    const auto found = suite().workload(name, "default");
    return found ? found->state().phase() : pb::WORKLOAD_PHASE_UNSPECIFIED;
  }
  static void expect_phase(const std::string& name, pb::WorkloadPhase wanted) {
    EXPECT_TRUE(eventually([&] { return phase(name) == wanted; }))
        << name << " is " << pb::WorkloadPhase_Name(phase(name)) << '\n'
        << why(name);
  }
};

// Every object that the API server accepts has an answer: it runs, or `why` names the reason.
TEST_F(UserReports, EachObjectThatTheApiServerTakesHasAnAnswer) {
  std::vector<std::string> silent;
  int taken = 0, refused = 0;
  for (const auto& entry : fs::directory_iterator(folder(""))) {
    const auto name = entry.path().filename().string();
    if (!entry.is_directory() || name == "n-newuser") continue;
    for (const auto& file : files(name, is_queue)) create_all(file);
    for (const auto& file :
         files(name, [](const auto& path) { return !is_queue(path) && path.extension() == ".yaml"; })) {
      for (const auto& document : documents(file)) {
        if (document.content["apiVersion"].string().starts_with("kueue.x-k8s.io")) continue;
        if (const auto made = create(document.content); !made) {
          ++refused;
          continue;
        }
        ++taken;
        Ran last;
        const bool answered = eventually(
            [&] {
              last = suite().qmctl({"why", full_name(document.content)});
              return last.code == 0 &&
                     (has(last.output, "remedy:") || has(last.output, "admits it") || has(last.output, "runs"));
            },
            10s);
        if (!answered) silent.push_back(fmt::format("{}: code {}\n{}", file, last.code, last.output));
        remove(target_of(document.content));
      }
    }
    remove_created();
  }
  EXPECT_TRUE(silent.empty()) << fmt::format("{}", fmt::join(silent, "\n"));
  EXPECT_GT(taken, 20);
  EXPECT_LT(refused, taken);
}

// A file with an error is refused with the position and a remedy, and none of its objects exist. A file without an
// error has an answer.
TEST_F(UserReports, EachFileOfANewUserIsAnswered) {
  create_all(folder("n-newuser") + "/nq.yaml");
  std::vector<std::string> wrong;
  for (const auto& file : files("n-newuser", [](const auto& path) { return path.filename() != "nq.yaml"; })) {
    const auto read = documents(file);
    const bool job = std::ranges::any_of(read, [](const auto& d) { return d.content["kind"].string() == "Job"; });
    const auto ran = suite().qmctl({job && read.size() == 1 ? "submit" : "apply", "-f", file});
    if (job && read.size() == 1 && suite().qmctl({"admit", "-f", file}).code != 0 && ran.code == 0)
      wrong.push_back(fmt::format("{} is submitted, and admit refuses it", file));
    if (ran.code != 0) {
      if (!has(ran.output, fs::path(file).filename()) || (!has(ran.output, "remedy:") && !has(ran.output, "; ")))
        wrong.push_back(fmt::format("{} is refused without its place or a remedy\n{}", file, ran.output));
      continue;
    }
    for (const auto& document : read) {
      if (document.content["kind"].string() != "Job") continue;
      created().push_back(target_of(document.content));
      if (!eventually([&] { return suite().qmctl({"why", full_name(document.content)}).code == 0; }, 10s))
        wrong.push_back(fmt::format("{} is taken and not known\n{}", file, ran.output));
    }
  }
  EXPECT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
}

// Each file of the page is written, each command is run, and each line below it is in its output.
TEST_F(UserReports, ThePageOfTheFirstDayMatchesTheOutput) {
  std::ifstream page(QM_SOURCE_DIR "/docs/first-day.md");
  const testing::TempDir dir;
  std::string block, command;
  std::ofstream file;
  std::vector<std::string> expected;
  int commands = 0;
  const auto settle = [&] {
    if (command.empty()) return;
    ++commands;
    Ran ran;
    std::string missing;
    const auto all_there = [&] {
      ran = run_line(command, dir.path());
      const auto absent = std::ranges::find_if(expected, [&](const auto& line) { return !has(ran.output, line); });
      missing = absent == expected.end() ? "" : *absent;
      return missing.empty();
    };
    const bool reads = has(command, "qmctl why") || has(command, "qmctl queues") || has(command, "qmctl get");
    EXPECT_TRUE(reads ? eventually(all_there) : all_there()) << command << " does not print\n"
                                                             << missing << "\nbut\n"
                                                             << ran.output;
    command.clear();
    expected.clear();
  };
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      settle();
      file.close();
      block = block.empty() ? line.substr(3) : "";
    } else if (line.starts_with("## ")) {
      remove_created();
    } else if (block == "yaml" && line.starts_with("# ")) {
      file.open(dir.path() + "/" + line.substr(2));
    } else if (block == "yaml") {
      file << line << '\n';
    } else if (block == "console" && line.starts_with("$ ")) {
      settle();
      command = line.substr(2);
    } else if (block == "console" && line != "...") {
      expected.push_back(line);
    }
  }
  EXPECT_GT(commands, 15);
}

TEST_F(UserReports, AQueueWithoutACohortBorrowsNothing) {
  const auto at = folder("f05-quota-lowered");
  create_queue(at, "f05");
  create_running_and_pending(at + "/jobs.yaml");
  const auto low = documents(at + "/queue-low.yaml").front().content;
  change(target_of(low), Json::object({{"spec", low["spec"]}}).dump());
  expect_why("f05-wait", {"6"});
  EXPECT_EQ(phase("f05-run"), pb::ADMITTED);
  const auto status = suite().kube("GET", target_of(low));
  ASSERT_TRUE(status);
  const auto object = Json::parse(status->body);
  ASSERT_TRUE(object) << status->body;
  for (const auto& flavor : (*object)["status"]["flavorsUsage"].items()) {
    for (const auto& resource : flavor["resources"].items())
      EXPECT_TRUE(resource["borrowed"].is_null() || resource["borrowed"].string() == "0") << status->body;
  }
}

TEST_F(UserReports, AClusterQueueThatIsDeletedInUseIsTerminating) {
  const auto at = folder("f06-clusterqueue-deleted-in-use");
  create_queue(at, "f06");
  create_running_and_pending(at + "/jobs.yaml");
  remove(target_of(documents(at + "/queue.yaml").front().content));
  std::string queues;
  EXPECT_TRUE(eventually([&] { return has(queues = output({"queues"}), "Terminating"); })) << queues;
  expect_why("f06-wait", {"f06", "eleted"});
}

TEST_F(UserReports, AJobWithoutPodsIsAnsweredAndCompetesOnceItHasSome) {
  const auto at = folder("f07-zero-replicas");
  create_all(at + "/queue.yaml");
  create_all(at + "/job-p0.yaml");
  expect_why("f07-p0", {"parallelism"});
  change(target_of(documents(at + "/job-p0.yaml").front().content), R"({"spec": {"parallelism": 2}})");
  expect_phase("f07-p0", pb::ADMITTED);
}

TEST_F(UserReports, AnotherParallelismIsFollowed) {
  const auto at = folder("f08-parallelism-changed");
  create_all(at + "/queue.yaml");
  create_all(at + "/job-wait.yaml");
  expect_phase("f08-big", pb::PENDING);
  change(target_of(documents(at + "/job-wait.yaml").front().content), R"({"spec": {"parallelism": 4}})");
  expect_phase("f08-big", pb::ADMITTED);
}

TEST_F(UserReports, AnElasticJobGrowsWhileItRunsOnceThereIsQuota) {
  const auto at = folder("f08-parallelism-changed");
  create_queue(at, "f08");
  auto elastic = documents(at + "/job-wait.yaml").front().content, other = elastic;
  elastic.set("metadata").set("name", "f08-elastic");
  elastic.set("metadata").set("annotations").set("kueue.x-k8s.io/elastic-job", "true");
  elastic.set("spec").set("parallelism", 2);
  other.set("metadata").set("name", "f08-other");
  other.set("spec").set("parallelism", 2);
  for (const auto* job : {&elastic, &other}) {
    const auto made = create(*job);
    ASSERT_TRUE(made) << made.error().to_string();
    expect_phase((*job)["metadata"]["name"].string(), pb::ADMITTED);
  }
  const auto bound = [] {
    const auto answer = suite().kube("GET", "/api/v1/namespaces/default/pods");
    const auto list = answer ? Json::parse(answer->body) : fail(answer.error());
    int count = 0;
    for (const auto& pod : list ? (*list)["items"].items() : Json::array().items()) {
      const bool mine = pod["metadata"]["name"].string().starts_with("f08-elastic");
      count += mine && !pod["spec"]["nodeName"].string().empty() ? 1 : 0;
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] { return bound() == 2; })) << bound();
  change(target_of(elastic), R"({"spec": {"parallelism": 4}})");
  expect_why("f08-elastic", {"ScaleUpPending", "2 more pods are pending for quota (2 of 4 pods are admitted)"});
  EXPECT_TRUE(has(output({"list"}), "ScaleUpPending")) << output({"list"});
  EXPECT_EQ(bound(), 2);
  EXPECT_EQ(phase("f08-elastic"), pb::ADMITTED);
  remove(target_of(other));
  EXPECT_TRUE(eventually([&] { return bound() == 4; })) << why("f08-elastic");
  EXPECT_FALSE(has(why("f08-elastic"), "ScaleUpPending")) << why("f08-elastic");
}

TEST_F(UserReports, AnotherQueueLabelIsFollowed) {
  const auto at = folder("f10-queue-label-changed");
  create_all(at + "/queue.yaml");
  create_all(at + "/job.yaml");
  const auto fixed = documents(at + "/job-fixed.yaml").front().content;
  expect_phase(fixed["metadata"]["name"].string(), pb::PENDING);
  change(target_of(fixed), Json::object({{"metadata", fixed["metadata"]}}).dump());
  expect_phase(fixed["metadata"]["name"].string(), pb::ADMITTED);
}

// At a clock factor of 1 the back-off is 30 s and more.
TEST_F(UserReports, AnUncordonedNodeIsUsedAtOnce) {
  const auto at = folder("f18-cordon");
  create_all(at + "/queue.yaml");
  const auto nodes = suite().kube("GET", "/api/v1/nodes");
  ASSERT_TRUE(nodes);
  const auto list = Json::parse(nodes->body);
  ASSERT_TRUE(list && list->contains("items")) << nodes->body;
  const auto node = (*list)["items"].items().front()["metadata"]["name"].string();
  ASSERT_FALSE(node.empty()) << nodes->body;
  change("/api/v1/nodes/" + node, R"({"spec": {"unschedulable": true}})");
  auto job = documents(at + "/job.yaml").front().content.dump();
  for (auto place = job.find("@NODE@"); place != std::string::npos; place = job.find("@NODE@"))
    job.replace(place, 6, node);
  const auto made = create(*Json::parse(job));
  ASSERT_TRUE(made) << made.error().to_string();
  ASSERT_TRUE(suite().clock(1));
  expect_why("f18-run", {"cordon"});
  expect_phase("f18-run", pb::PENDING);
  change("/api/v1/nodes/" + node, R"({"spec": {"unschedulable": null}})");
  EXPECT_TRUE(eventually([] { return phase("f18-run") == pb::ADMITTED; }, 10s)) << why("f18-run");
  ASSERT_TRUE(suite().clock(20));
}

TEST_F(UserReports, PodsThatLostTheirJobHoldTheirQuotaAndAreNamed) {
  const auto at = folder("f21-orphan-delete");
  create_queue(at, "f21");
  create_all(at + "/job.yaml");
  expect_phase("f21-run", pb::ADMITTED);
  ASSERT_TRUE(suite().kube("DELETE", "/apis/batch/v1/namespaces/default/jobs/f21-run?propagationPolicy=Orphan"));
  expect_why("f21-wait", {"f21-run", "pod"});
  EXPECT_EQ(phase("f21-wait"), pb::PENDING);
}

TEST_F(UserReports, TwoMigProfilesInOnePodAreAnsweredOnTheObject) {
  const auto at = folder("f24-mig");
  create_all(at + "/queue.yaml");
  create_all(at + "/job-two.yaml");
  expect_phase("f24-two", pb::REJECTED);
  expect_why("f24-two", {"MIG", "remedy:"});
  EXPECT_TRUE(eventually([] {
    const auto events = suite().kube("GET", "/api/v1/namespaces/default/events");
    return events && has(events->body, "f24-two") && has(events->body, "MIG");
  }));
}

TEST_F(UserReports, AFlavorThatOnlyAnotherQueueHasIsNoRemedy) {
  const auto at = folder("f27-other-flavor-of-cohort");
  create_all(at + "/queue.yaml");
  create_all(at + "/job.yaml");
  expect_why("f27-big", {"RaiseQuota", "AddFlavor"});
  EXPECT_FALSE(has(why("f27-big"), "borrowing limit")) << why("f27-big");
}

TEST_F(UserReports, ACycleOfCohortsIsNamedAndItsQueuesAreInactive) {
  const auto at = folder("f30-cohort-cycle");
  create_all(at + "/queue.yaml");
  create_all(at + "/job.yaml");
  expect_why("f30-j", {"f30-x", "f30-y", "remedy:"});
  std::string object;
  EXPECT_TRUE(eventually([&] {
    const auto queue = suite().kube("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/f30");
    if (!queue) return false;
    object = queue->body;
    const auto read = Json::parse(object);
    return read && std::ranges::any_of((*read)["status"]["conditions"].items(), [](const auto& condition) {
             return condition["type"].string() == "Active" && condition["status"].string() == "False";
           });
  })) << object;
  const auto corrected = documents(at + "/mend.yaml").front().content;
  change(target_of(corrected), Json::object({{"spec", corrected["spec"]}}).dump());
  expect_phase("f30-j", pb::ADMITTED);
}

TEST_F(UserReports, ResourcesOfAPodCount) {
  const auto at = folder("f32-pod-level-resources");
  create_all(at + "/queue.yaml");
  for (const char* name : {"f32-lim", "f32-req"}) {
    create_all(fmt::format("{}/job{}.yaml", at, std::string(name).substr(3)));
    expect_phase(name, pb::ADMITTED);
  }
  const auto queue = suite().kube("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/f32");
  ASSERT_TRUE(queue);
  EXPECT_TRUE(eventually([] {
    const auto now = suite().kube("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/f32");
    return now && has(now->body, R"("total":"40")");
  })) << queue->body;
}

}  // namespace reports_e2e_test
}  // namespace qm::e2e
