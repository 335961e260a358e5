// Checkpoint orders by file and by signal, their order of precedence, and the example trainer that is killed and resumes.
#include "checkpoint_files.hpp"
#include "checkpoint_signal.hpp"
#include "checkpoints.hpp"
#include "qm/testing/testing.hpp"
#include "rig.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace qm::agent {
namespace checkpoint_modes_test {

namespace fs = std::filesystem;
using qm::testing::wait_until;
using testing::FakeRanks;
using ::testing::HasSubstr;
using testing::pod_of;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// A folder of the kubelet with one pod, r0, that has an emptyDir "exchange".
class ModesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(exchange);
    fs::create_directories(proc);
    pods.synced();
  }
  void TearDown() override { fs::remove_all(folder); }
  void pod(const std::string& contract, const std::string& answer = {}) {
    Json pod = pod_of("r0", "n", "job", 2, contract);
    if (!answer.empty()) pod.set("metadata").set("annotations").set(kCheckpointAnswer, answer);
    pods.apply(pod, false);
  }
  [[nodiscard]] Checkpoints::Options options() const {
    return {.timeout = std::chrono::seconds(5), .kubelet_pods = folder / "pods", .proc = proc};
  }
  void order(Checkpoints& desk, std::int64_t number) {
    pb::CheckpointOrder order;
    order.set_id("o" + std::to_string(number));
    order.set_uid("job");
    order.set_attempt(2);
    order.set_namespace_("team");
    order.set_kind("Job");
    order.set_reason("SpotInterruption");
    order.set_deadline_us(5'000'000);
    order.set_number(number);
    desk.order(order, {"n"});
  }
  pb::CheckpointAck ack() {
    EXPECT_TRUE(wait_until([&] { return facts.size() == 1; }));
    facts.renew();
    const auto due = facts.due({}, 1);
    if (due.empty()) return {};
    const auto out = due[0].ack();
    facts.confirm(due[0].id());
    return out;
  }
  /// A process of this test in a container of the pod, as /proc of the node shows it.
  void container(int pid, const std::string& comm = "python3") {
    write(proc / std::to_string(pid) / "cgroup",
          "0::/kubepods.slice/kubepods-poduid_r0.slice/cri-containerd-1.scope\n");
    write(proc / std::to_string(pid) / "status", "Name:\tx\nNSpid:\t" + std::to_string(pid) + "\t1\n");
    write(proc / std::to_string(pid) / "comm", comm + "\n");
  }

  const fs::path folder = fs::temp_directory_path() / ("qm-modes-" + std::to_string(::getpid()));
  const fs::path exchange = folder / "pods/uid-r0/volumes/kubernetes.io~empty-dir/exchange";
  const fs::path proc = folder / "proc";
  Pods pods;
  Facts facts{"boot"};
  ManualClock clock{from_micros(77)};
};

TEST_F(ModesTest, AnOrderByFileIsAnsweredByAFile) {
  pod(R"({"file":"exchange","uri":"s3://bucket/run"})");
  // An answer that an earlier incarnation left on durable storage.
  write(exchange / kAnswerFile, R"({"step":900,"uri":"s3://old","fence":"1-3"})");
  Checkpoints desk(pods, facts, clock, options());
  order(desk, 4);
  ASSERT_TRUE(wait_until([&] { return fs::exists(exchange / kOrderFile); }));
  const auto order_text = Json::parse(text_of(exchange / kOrderFile));
  ASSERT_TRUE(order_text) << "a reader never sees a part of it";
  EXPECT_EQ((*order_text)["fence"].string(), "2-4");
  EXPECT_EQ((*order_text)["uri"].string(), "s3://bucket/run");
  EXPECT_EQ(facts.size(), 0U);
  write(exchange / "part", R"({"step":70,"uri":"s3://bucket/run/70","fence":"2-4"})");
  fs::rename(exchange / "part", exchange / kAnswerFile);
  const auto done = ack();
  EXPECT_TRUE(done.ok()) << done.message();
  EXPECT_EQ(done.step(), 70);
  EXPECT_EQ(done.uri(), "s3://bucket/run/70");
}

TEST_F(ModesTest, TheContentOfAVolumeCannotLeadTheAgentElsewhere) {
  pod(R"({"file":"exchange"})");
  write(folder / "secret", R"({"step":1,"uri":"s3://stolen","fence":"2-1"})");
  fs::create_symlink(folder / "secret", exchange / kAnswerFile);
  fs::create_symlink(folder / "victim", exchange / kOrderFile);
  fs::create_symlink(folder / "victim", exchange / ".checkpoint-order.part");
  Checkpoints desk(pods, facts, clock, options());
  order(desk, 1);
  auto done = ack();
  EXPECT_FALSE(done.ok());
  EXPECT_FALSE(fs::exists(folder / "victim"));
  fs::remove(exchange / kAnswerFile);
  ASSERT_EQ(::mkfifo((exchange / kAnswerFile).c_str(), 0600), 0);
  order(desk, 2);
  done = ack();
  EXPECT_THAT(done.message(), HasSubstr("is not a regular file"));
}

TEST_F(ModesTest, ASignalIsAnsweredInAnAnnotation) {
  const std::string ready = folder / "ready";
  const int child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGUSR1, [](int) { ::_exit(7); });
    ::close(::open(ready.c_str(), O_WRONLY | O_CREAT, 0600));
    while (true) ::pause();
  }
  const int pause_process = ::fork();
  if (pause_process == 0) {
    while (true) ::pause();
  }
  container(child);
  container(pause_process, "pause");
  EXPECT_EQ(first_processes(proc, "uid-r0"), (std::vector<int>{child}));
  EXPECT_EQ(first_processes(proc, "uid-other"), (std::vector<int>{}));
  ASSERT_TRUE(wait_until([&] { return fs::exists(ready); })) << "the child has its handler";
  pod(R"({"signal":"SIGUSR1"})", R"({"step":1,"uri":"s3://before"})");
  Checkpoints desk(pods, facts, clock, options());
  order(desk, 4);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(facts.size(), 0U) << "the annotation is that of an earlier order";
  pod(R"({"signal":"SIGUSR1"})", R"({"step":70,"uri":"s3://70"})");
  const auto done = ack();
  EXPECT_TRUE(done.ok()) << done.message();
  EXPECT_EQ(done.step(), 70);
  ::kill(pause_process, SIGKILL);
  ::waitpid(pause_process, &status, 0);
}

TEST_F(ModesTest, TheFirstModeThatReachesTheRankIsUsed) {
  FakeRanks ranks;
  ASSERT_TRUE(ranks.started());
  pod(std::string(R"({"http":")") + FakeRanks::kUrl + R"(","file":"exchange"})");
  auto chosen = options();
  chosen.gateway = ranks.url_template();
  {
    Checkpoints desk(pods, facts, clock, chosen);
    ranks.saved("r0", 5);
    order(desk, 1);
    EXPECT_EQ(ack().step(), 5);
    EXPECT_FALSE(fs::exists(exchange / kOrderFile));
    ranks.say("r0", {http::text(409, "busy")});  // an answer: no other mode is tried
    order(desk, 2);
    EXPECT_THAT(ack().message(), HasSubstr("status 409"));
  }
  chosen.gateway = "http://127.0.0.1:9/{pod}";  // nothing listens there
  Checkpoints desk(pods, facts, clock, chosen);
  order(desk, 3);
  ASSERT_TRUE(wait_until([&] { return fs::exists(exchange / kOrderFile); }));
  write(exchange / "part", R"({"step":6,"uri":"s3://6","fence":"2-3"})");
  fs::rename(exchange / "part", exchange / kAnswerFile);
  EXPECT_EQ(ack().step(), 6);
}

TEST_F(ModesTest, WhatTheAgentCannotUseIsNamed) {
  auto none = options();
  none.kubelet_pods.clear();
  none.proc.clear();
  Checkpoints desk(pods, facts, clock, none);
  pod(R"({"file":"exchange"})");
  order(desk, 1);
  EXPECT_THAT(ack().message(), HasSubstr("set kubelet-pods of the agent"));
  pod(R"({"signal":"SIGUSR1"})");
  order(desk, 2);
  EXPECT_THAT(ack().message(), HasSubstr("set proc of the agent"));
  pod(R"({"quorum":1})");
  order(desk, 3);
  EXPECT_THAT(ack().message(), HasSubstr("it offers no mode"));
  Checkpoints other(pods, facts, clock, options());
  pod(R"({"file":"no-such-volume"})");
  order(other, 4);
  EXPECT_THAT(ack().message(), HasSubstr("no-such-volume"));
}

/// examples/training/train.py as a process; its output is in a file.
class Trainer {
 public:
  Trainer(const fs::path& folder, const fs::path& exchange, const std::string& resume) : log_(folder / "log") {
    fs::remove(log_);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::setenv("CHECKPOINT_URI", resume.c_str(), 1);
    const int out = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(out, 1), ::dup2(out, 2);
    const std::string script = std::string(QM_SOURCE_DIR) + "/examples/training/train.py";
    ::execlp("python3", "python3", script.c_str(), "--port", "0", "--address", "127.0.0.1", "--step-seconds", "0.002",
             "--steps", "1000000", "--checkpoint-freq", "1000000", "--folder", folder.c_str(), "--exchange",
             exchange.c_str(), nullptr);
    ::_exit(127);
  }
  ~Trainer() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] std::string output() const { return text_of(log_); }
  [[nodiscard]] bool shows(const std::string& text) const {
    return wait_until([&] { return output().find(text) != std::string::npos; }, std::chrono::seconds(20));
  }

 private:
  const fs::path log_;
  int pid_ = 0;
};

// The trainer of examples/ saves by order, is killed with its node, and resumes at the acknowledged step.
TEST_F(ModesTest, TheExampleTrainerResumesAtTheAcknowledgedStep) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "python3 is missing";
  const fs::path durable = folder / "checkpoints";
  fs::create_directories(durable);
  const fs::path copies = folder / "spot-recovery";
  pod(fmt::format(R"({{"file":"exchange","copy":"{}"}})", copies.string()));
  Checkpoints desk(pods, facts, clock, options());
  pb::CheckpointAck saved;
  {
    Trainer trainer(durable, exchange, "");
    ASSERT_TRUE(trainer.shows("starts at step 0")) << trainer.output();
    order(desk, 1);
    saved = ack();
    ASSERT_TRUE(saved.ok()) << saved.message() << trainer.output();
    EXPECT_GT(saved.step(), 0);
    ASSERT_EQ(saved.saves_size(), 1);
    EXPECT_GT(saved.saves(0).bytes(), 0);
    EXPECT_THAT(saved.uri(), HasSubstr("epoch-0-step-" + std::to_string(saved.step())));
    EXPECT_TRUE(fs::exists(copies / fs::path(saved.uri()).filename())) << "the second destination";
    trainer.kill();  // work after the checkpoint is lost
  }
  Trainer resumed(durable, exchange, saved.uri());
  EXPECT_TRUE(resumed.shows("starts at step " + std::to_string(saved.step()))) << resumed.output();
  order(desk, 2);
  const auto again = ack();
  EXPECT_TRUE(again.ok()) << again.message();
  EXPECT_GT(again.step(), saved.step());
}

}  // namespace checkpoint_modes_test
}  // namespace qm::agent
