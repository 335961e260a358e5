// Runs the text tables in test/cases: one command on each line, with its expected results below it, indented by two
// spaces. "== name" starts a new case with an empty engine; "wait 30s" advances time. Every step is also rolled back
// and repeated, and the laws are checked after each one. QM_UPDATE_CASES=1 writes the actual results into the files,
// for review.
#include "case_words.hpp"
#include "qm/admission/queries/explanation.hpp"
#include "qm/admission/queries/queues.hpp"
#include "qm/admission/queries/remedies.hpp"
#include "qm/admission/queries/workloads.hpp"
#include "qm/model/moves.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace qm::admission {
namespace case_test {

class Runner {
 public:
  // Runs one command line and returns its results.
  Words run(const std::string& line) {
    Words found;
    std::vector<Command> batch;
    Instant then = now_;
    for (const auto& part : split(line, '&')) {
      const Words w = split(part, ' ');
      if (w[0] == "explain") return explain(w[1]);
      if (w[0] == "queue") return queue(w[1]);
      if (w[0] == "account") return account(w[1]);
      if (w[0] == "wake") return wake();
      if (w[0] == "engine") return restart_engine(w);
      if (w[0] == "wait") {
        then += read_duration(w[1]);
        batch.emplace_back(Tick{});
      } else {
        batch.push_back(command(w));
      }
    }
    now_ = then;
    const auto before = engine_.digest();
    const auto first = print(engine_.step(batch, now_));
    const auto after = engine_.digest();
    engine_.check_laws();
    engine_.undo();
    engine_.check_laws();
    EXPECT_EQ(engine_.digest(), before) << "undo of: " << line;
    auto output = engine_.step(batch, now_);
    wake_at_ = output.wake_at;
    const auto second = print(output);
    EXPECT_EQ(first, second) << "repeat of: " << line;
    EXPECT_EQ(engine_.digest(), after);
    engine_.check_laws();
    const auto& rows = engine_.tables().workloads;
    const auto ended = [](const auto& row) { return row.second.ended(); };
    const auto pends = [](const auto& row) { return row.second.phase == Phase::kPending; };
    EXPECT_TRUE(output.pending || std::ranges::none_of(rows, pends)) << "after: " << line;
    EXPECT_TRUE(!output.pending || !std::ranges::all_of(rows, ended)) << "after: " << line;
    engine_.commit();
    return second;
  }

 private:
  // "wake": when the engine wants to step without a command, after the last step.
  Words wake() const {
    return {wake_at_ ? fmt::format("after {} ms", (*wake_at_ - now_) / std::chrono::milliseconds(1)) : "never"};
  }
  static std::string value_in(const Words& w, const std::string& key, const std::string& fallback) {
    for (const auto& word : w) {
      if (word.rfind(key + "=", 0) == 0) return word.substr(key.size() + 1);
    }
    return fallback;
  }
  static bool has_in(const Words& w, const std::string& word) { return std::find(w.begin(), w.end(), word) != w.end(); }

  // "engine pods-ready=5m recovery=3m base=60s most=1h limit=2 block keeps-age", "engine disruptions-per-hour=1",
  // "engine start-window=4" or "engine adoption kueue-cycles": starts a new engine with these settings.
  Words restart_engine(const Words& w) {
    Options options;
    auto& rule = options.wait_for_pods_ready.emplace();
    rule.timeout = read_duration(value_in(w, "pods-ready", "5m"));
    rule.recovery_timeout = read_duration(value_in(w, "recovery", "3m"));
    rule.backoff = read_duration(value_in(w, "base", "60s"));
    rule.backoff_most = read_duration(value_in(w, "most", "1h"));
    if (const auto most = value_in(w, "limit", ""); !most.empty()) rule.most_requeues = std::stoi(most);
    rule.block_admission = has_in(w, "block");
    rule.keeps_age = has_in(w, "keeps-age");
    if (has_in(w, "adoption")) {  // no placement service, and the rules of Kueue's cycles
      options = Options();
      options.places = false;
      options.rules.kueue_cycles = has_in(w, "kueue-cycles");
    }
    if (const auto window = value_in(w, "start-window", ""); !window.empty()) {  // sets only this
      options = Options();
      options.start_window = std::stoll(window);
    }
    if (const auto hourly = value_in(w, "disruptions-per-hour", ""); !hourly.empty()) {  // sets only this
      options = Options();
      options.disruptions_per_hour = std::stoll(hourly);
    }
    engine_ = Engine(options);
    return {};
  }

  // "node a rack=r1 gpu=8 used=2 not-ready failed", "node a gone" or "nodes a,b": the complete list, which keeps the
  // known state of these.
  Command nodes(const Words& w) {
    NodesUpdated out;
    if (w[0] == "nodes") {
      out.complete = true;
      for (const auto& name : split(w[1], ',')) {
        const auto* known = engine_.tables().nodes.find(NodeName(name));
        out.nodes.emplace(NodeName(name), known == nullptr ? NodeState() : *known);
      }
      return out;
    }
    if (has_in(w, "gone")) {
      out.gone.emplace_back(w[1]);
      return out;
    }
    NodeState node;
    node.labels = {{"kubernetes.io/hostname", w[1]}, {"rack", value_in(w, "rack", "")}};
    const std::string gpu(words::kGpuResource);
    node.allocatable = {{gpu, std::stoll(value_in(w, "gpu", "0"))}, {"pods", 100}};
    if (const auto used = value_in(w, "used", ""); !used.empty()) node.used = {{gpu, std::stoll(used)}, {"pods", 1}};
    node.failed = has_in(w, "failed");
    node.ready = !node.failed && !has_in(w, "not-ready");
    out.nodes.emplace(NodeName(w[1]), std::move(node));
    return out;
  }

  Command command(const Words& w) {
    const auto value = [&](const std::string& key, const std::string& fallback) { return value_in(w, key, fallback); };
    const auto has = [&](const std::string& word) { return has_in(w, word); };
    ApplyObjects apply;
    apply.dry_run = has("dry-run");
    if (w[0] == "flavor") {
      Flavor f{FlavorName(w[1]), {}, {}, {}, {}};
      for (std::size_t i = 2; i + 1 < w.size(); ++i) {
        if (w[i] == "label") f.node_labels[split(w[i + 1], '=')[0]] = split(w[i + 1], '=')[1];
        if (w[i] == "taint") f.node_taints.push_back({w[i + 1], "", "NoSchedule"});
      }
      f.topology = value("topology", "");
      f.from_cluster = has("cluster");
      apply.flavors.push_back(f);
      return apply;
    }
    // "topology hall rack,kubernetes.io/hostname"
    if (w[0] == "topology") {
      apply.topologies.push_back({w[1], split(w[2], ','), {}, has("cluster")});
      return apply;
    }
    if (w[0] == "node" || w[0] == "nodes") return nodes(w);
    if (w[0] == "cohort" || w[0] == "cq") {
      std::vector<ResourceGroup> groups;
      for (const auto& word : w) {
        if (word.rfind("quota=", 0) == 0) add_quota(groups, word.substr(6));
      }
      if (w[0] == "cohort") {
        apply.cohorts.push_back({w[1], value("parent", ""), groups, {}});
        apply.cohorts.back().sharing = volcano::sharing_of(value("rules", ""));
        apply.cohorts.back().waiting_time = read_duration(value("waiting", "0s"));
      } else {
        apply.cluster_queues.push_back({QueueName(w[1]),
                                        value("cohort", ""),
                                        groups,
                                        has("strict") ? Strategy::kStrictFifo : Strategy::kBestEffortFifo,
                                        policy_of(value("within", "Never")),
                                        policy_of(value("reclaim", "Never")),
                                        stop_of(value("stop", "None")),
                                        {},
                                        has("cluster")});
        apply.cluster_queues.back().minimum_run = read_duration(value("min-run", "0s"));
        apply.cluster_queues.back().by_usage = has("by-usage");
        // "checks=budget,room:spot": check room only applies to flavor spot
        for (const auto& one : split(value("checks", ""), ',')) {
          const auto name = split(one, ':');
          auto& flavors = apply.cluster_queues.back().checks[name[0]];
          for (std::size_t i = 1; i < name.size(); ++i) flavors.emplace(name[i]);
        }
      }
      return apply;
    }
    if (w[0] == "vq") {
      ClusterQueue queue;
      queue.name = QueueName(w[1]);
      auto& object = queue.volcano.emplace();
      object.rules.name = w[1];
      object.rules.parent = value("parent", "");
      object.rules.weight = std::stoi(value("weight", "1"));
      object.rules.reclaimable = !has("not-reclaimable");
      object.rules.strict = has("strict");
      object.rules.victims = *volcano::policy_of(value("victims", "fifo"));
      if (has("closed")) object.rules.state = volcano::QueueState::kClosed;
      for (const auto& [word, list] : {std::pair("capability", &object.capability),
                                       {"deserved", &object.deserved},
                                       {"guarantee", &object.guarantee}}) {
        if (const auto gpus = value(word, ""); !gpus.empty())
          (*list)[std::string(words::kGpuResource)] = std::stoll(gpus);
      }
      apply.cluster_queues.push_back(std::move(queue));
      return apply;
    }
    if (w[0] == "lq") {
      const auto name = split(w[1], '/');
      apply.local_queues.push_back(
          {Namespace(name[0]), name[1], QueueName(w[2]), stop_of(value("stop", "None")), {}, has("cluster")});
      apply.local_queues.back().weight_milli = std::stoll(value("weight", "1")) * 1000;
      return apply;
    }
    if (w[0] == "class") {
      apply.priority_classes.push_back({w[1], std::stoi(w[2]), !has("pod"), has("default"), {}});
      apply.priority_classes.back().minimum_run = read_duration(value("min-run", "0s"));
      return apply;
    }
    if (w[0] == "check") {
      apply.admission_checks.push_back(
          {w[1], "example.com/" + w[1], !has("inactive"), read_duration(value("delay", "0s")), {}, has("cluster")});
      return apply;
    }
    if (w[0] == "answer") {
      static const std::map<std::string, Verdict> kVerdicts{{"pending", Verdict::kPending},
                                                            {"ready", Verdict::kReady},
                                                            {"retry", Verdict::kRetry},
                                                            {"rejected", Verdict::kRejected}};
      return AnswerCheck{WorkloadUid(w[1]),
                         {},
                         {},
                         w[2],
                         kVerdicts.at(w[3]),
                         value("saying", ""),
                         read_duration(value("after", "0s")),
                         std::stoi(value("attempt", "0"))};
    }
    if (w[0] == "spec-active") return ActiveUpdated{WorkloadUid(w[1]), w[2] == "active"};
    if (w[0] == "deactivate" || w[0] == "activate") {
      return SetActive{WorkloadUid(w[1]), {}, {}, value("why", ""), w[0] == "activate"};
    }
    if (w[0] == "job") {
      JobUpdated job;
      job.spec.uid = WorkloadUid(w[1]);
      job.spec.ns = Namespace(value("ns", "team"));
      job.spec.name = value("name", w[1]);
      job.spec.queue = value("queue", "");
      job.spec.priority_class = value("class", "");
      auto known = submitted_.emplace(w[1], now_);
      job.spec.submitted = known.first->second;
      PodSet pods;
      pods.count = std::stoi(value("pods", "1"));
      pods.min_count = std::stoi(value("min", "0"));
      pods.shape.gpu.whole = std::stoll(value("gpu", "0"));
      pods.shape.cpu_milli = std::stoll(value("cpu", "0")) * 1000;
      pods.shape.memory_bytes = std::stoll(value("mem", "0")) << 30;
      if (has("tolerate")) pods.shape.tolerations.push_back({"", "Exists", "", ""});
      pods.topology.required = value("required", "");
      pods.topology.preferred = value("preferred", "");
      pods.topology.unconstrained = has("unconstrained");
      const auto selector = split(value("sel", ""), ':');
      if (selector.size() == 2) pods.shape.node_selector[selector[0]] = selector[1];
      if (pods.count > 0) job.spec.pod_sets.push_back(pods);
      const auto leader = std::stoll(value("leader-gpu", "0"));
      if (leader > 0) {
        pods.name = "leader";
        pods.count = 1;
        pods.shape.gpu.whole = leader;
        job.spec.pod_sets.push_back(pods);
      }
      job.suspended = !has("running");
      job.attempt = std::stoi(value("attempt", "0"));
      job.complete = has("complete");
      job.failed = has("failed");
      job.external_scheduler = has("external-scheduler");
      job.active = std::stoi(value("active", "0"));
      job.ended = std::stoi(value("ended", "0"));
      job.max_execution = read_duration(value("most", "0s"));
      job.pods_ready = has("ready");
      job.spec.expected_runtime = read_duration(value("expects", "0s"));
      job.spec.team = Team(value("team", ""));
      job.refused = value("refused", "");
      job.rejected = value("rejected", "");
      if (!job.rejected.empty()) job.spec.pod_sets.clear();
      job.at_once = std::stoi(value("at-once", "-1"));
      job.elastic = has("elastic");
      job.ready = std::stoi(value("pods-ready", "-1"));
      job.as_submitted = !has("added");  // "job one added sel=zone:a": its template may have additions of an attempt
      // "job ring group expected gpu=8 pods=8": a group without pods
      if (has("group")) job.spec.kind = "PodGroup";
      if (has("not-movable")) job.spec.labels[std::string(kMovable)] = "false";
      job.pods_expected = has("expected");
      job.waiting_time = std::chrono::duration_cast<WholeSeconds>(read_duration(value("waits", "0s")));
      if (has("wanted") || has("unwanted")) job.spec_active = has("wanted");
      return job;
    }
    // "budget b cq=a 0h:2h:10 2h:4h:10 seq=1": so many GPU-hours, or dollars, in each period, counted from the start
    // of the table
    if (w[0] == "budget") {
      BudgetGranted out;
      out.budget = w[1];
      out.sequence = ++sequence_;
      if (const auto old = value("seq", ""); !old.empty()) out.sequence = std::stoull(old);
      out.terms.cluster_queue = QueueName(value("cq", ""));
      out.terms.ns = Namespace(value("ns", ""));
      out.terms.team = Team(value("team", ""));
      out.terms.dollars = has("usd");
      out.terms.soft = has("soft");
      out.terms.default_run = read_duration(value("run", "1h"));
      out.withdrawn = has("withdrawn");
      for (const auto& word : w) {
        if (word.rfind("price=", 0) == 0) {
          const auto parts = split(word.substr(6), ':');  // "price=p5:3": dollars per GPU-hour of this type
          out.terms.prices.push_back({parts[0], {}, std::stoll(parts[1]) * 1'000'000'000});
        }
        const auto parts = split(word, ':');
        if (parts.size() != 3 || word.find('=') != std::string::npos) continue;
        out.allotments.push_back({{kBegin + read_duration(parts[0]), kBegin + read_duration(parts[1])},
                                  std::stoll(parts[2]) * (out.terms.dollars ? 1'000'000'000 : 3'600'000),
                                  std::stoi(value("carry", "0"))});
      }
      return out;
    }
    if (w[0] == "spent") {  // "spent one 1 90m usd=3 final": GPU time and dollars of an attempt
      return SpendingUpdated{WorkloadUid(w[1]), std::stoi(w[2]), std::stoll(value("usd", "0")) * 1'000'000'000,
                             read_duration(w[3]).count(), has("final")};
    }
    if (w[0] == "deleted") {  // "deleted ClusterQueue a", "deleted LocalQueue team/q"
      const auto name = split(w[2], '/');
      return ObjectDeleted{w[1], Namespace(name.size() > 1 ? name[0] : ""), name.back()};
    }
    if (w[0] == "listed") {  // "listed ClusterQueue a b": the complete list
      ObjectsSynced synced{w[1], {}};
      for (std::size_t i = 2; i < w.size(); ++i) {
        const auto name = split(w[i], '/');
        synced.names.emplace(Namespace(name.size() > 1 ? name[0] : ""), name.back());
      }
      return synced;
    }
    if (w[0] == "gone") return JobDeleted{WorkloadUid(w[1])};
    if (w[0] == "synced") {
      JobsSynced synced;
      for (std::size_t i = 1; i < w.size(); ++i) synced.uids.insert(WorkloadUid(w[i]));
      return synced;
    }
    if (w[0] == "placement") {
      static const std::map<std::string, Answer> kStates{{"reserved", Answer::kReserved},
                                                         {"short", Answer::kShort},
                                                         {"bound", Answer::kBound},
                                                         {"released", Answer::kReleased},
                                                         {"expired", Answer::kExpired}};
      PlacementUpdated updated{WorkloadUid(w[1]), std::stoi(w[2]),     kStates.at(w[3]),
                               "r-" + w[1],       value("reason", ""), {}};
      if (value("expires", "") != "") updated.expires = now_ + read_duration(value("expires", ""));
      return updated;
    }
    if (w[0] == "promise") {
      PromiseUpdated promise{WorkloadUid(w[1]), std::stoi(w[2]), {}, w[3] == "withdrawn"};
      if (!promise.withdrawn) promise.ready_by = now_ + read_duration(w[3]);
      return promise;
    }
    if (w[0] == "evict") {
      return EvictionRequested{WorkloadUid(w[1]), std::stoi(w[2]), w[3], {}, now_ + read_duration(value("in", "120s")),
                               value("uri", ""),  "autoscaler"};
    }
    // "propose 7 big 1 small-a/1,small-b/1/moves cents=41": preemptor and victims, which may also be migrated; also
    // move, withdrawn
    if (w[0] == "propose") {
      ProposalUpdated updated{std::stoll(w[1]),
                              WorkloadUid(w[2]),
                              std::stoi(w[3]),
                              has("move"),
                              {},
                              std::stoll(value("cents", "0")) * 10'000,
                              has("withdrawn")};
      for (const auto& victim : split(w.size() > 4 && w[4].find('/') != std::string::npos ? w[4] : "", ',')) {
        const auto parts = split(victim, '/');
        updated.victims.push_back({WorkloadUid(parts[0]), std::stoi(parts[1]), parts.size() > 2});
      }
      return updated;
    }
    if (w[0] == "saved") {
      return CheckpointUpdated{WorkloadUid(w[1]), std::stoi(w[2]), w[3], std::stoll(value("number", "0"))};
    }
    // "fits one/2 two/3": pending workloads with pods that fit the free capacity
    if (w[0] == "fits") {
      RequeueListUpdated updated;
      for (std::size_t i = 1; i < w.size(); ++i) {
        const auto item = split(w[i], '/');
        updated.items.emplace_back(WorkloadUid(item.at(0)), std::stoi(item.at(1)));
      }
      return updated;
    }
    if (w[0] == "cancel") {
      const auto name = split(w[1], '/');
      if (name.size() == 2) return Cancel{{}, Namespace(name[0]), name[1], value("why", "")};
      return Cancel{WorkloadUid(w[1]), {}, {}, value("why", "")};
    }
    if (w[0] == "submit") {
      const auto name = split(w[1], '/');
      return Submit{Namespace(name[0]), name[1], value("queue", ""), value("class", ""), {}, "{}"};
    }
    if (w[0] == "outcome") {
      IntentOutcome outcome{w[1], last_create_, w[2], std::stoi(w[3]), w[4] != "error", w[4] == "complete", false, {}};
      if (!outcome.ok) outcome.error = "the server refused it";
      return outcome;
    }
    ADD_FAILURE() << "unknown command " << w[0];
    return Tick{};
  }

  Words print(const Output& out) {
    Words lines;
    for (const auto& e : out.events) {
      const auto& w = e.workload;
      if (e.what == Event::What::kBound) continue;  // not published
      std::string line = fmt::format("{}/{} {}", w.spec.uid, w.attempt, name_of(e.what));
      if (e.what == Event::What::kQueued) {
        line += fmt::format(" {} priority {}", w.cluster_queue.empty() ? *w.reason : w.cluster_queue.value(),
                            w.spec.priority);
      }
      if (e.what == Event::What::kQuotaReserved) {
        for (const auto& [at, amount] : w.usage) {
          line += fmt::format(" {}:{}={}", at.flavor, at.resource, show_amount(at.resource, amount));
        }
      }
      if (e.what == Event::What::kEvicting) line += fmt::format(" {}: {}", w.eviction->reason, w.eviction->message);
      if (e.what == Event::What::kRequeued || e.what == Event::What::kFinished || e.what == Event::What::kCancelled) {
        line += " " + *w.reason;
        if (w.not_before != Instant{}) line += fmt::format(" for {}s", seconds(w.not_before - now_));
      }
      if (e.what == Event::What::kAdmitted && !w.resume_uri.empty()) line += " from " + *w.resume_uri;
      if (e.what == Event::What::kRepeated) line += fmt::format(" {}", name_of(w.phase));
      if (const auto* decided = engine_.tables().proposals.find(w.spec.uid); decided != nullptr) {
        line += fmt::format(", proposal {} {}", decided->number, decided->accepted ? "accepted" : decided->reason);
        for (const auto& kept : decided->kept) line += fmt::format(" {}", kept);
      }
      lines.push_back(line);
    }
    for (const auto& i : out.intents) {
      // All intents of a job have its name as their key, so that they are executed in order.
      const WorkloadSpec& job = i.workload.spec;
      EXPECT_EQ(i.key, fmt::format("{}/{}", job.ns, job.name)) << i.kind;
      lines.push_back(fmt::format("do {} {}", i.kind,
                                  i.kind == "job.create" ? i.key : fmt::format("{}/{}", job.uid, i.workload.attempt)));
      if (!i.reason.empty()) lines.back() += fmt::format(" {}: {}", i.reason, i.object);
      if (i.kind == "job.create") last_create_ = i.id;
    }
    for (const auto& r : out.replies) {
      if (!r.result) {
        lines.push_back("refused " + r.result.error().to_string());
      } else if (const auto* apply = std::get_if<ApplyReply>(&*r.result)) {
        for (const auto& warning : apply->warnings) lines.push_back("warning " + warning);
      } else if (const auto* cancel = std::get_if<CancelReply>(&*r.result)) {
        lines.push_back(fmt::format("cancelled: {}", name_of(cancel->phase)));
      } else if (const auto* changed = std::get_if<PhaseReply>(&*r.result)) {
        lines.push_back(fmt::format("now: {}", name_of(changed->phase)));
      } else if (const auto* submit = std::get_if<SubmitReply>(&*r.result)) {
        lines.push_back(fmt::format("submitted {}/{}", submit->ns, submit->name));
      }
    }
    return lines;
  }

  Words explain(const std::string& uid) {
    const Workload* w = engine_.find(WorkloadUid(uid));
    if (w == nullptr) return {"unknown"};
    const auto e = admission::explain(engine_.state(), *w, now_);
    Words lines{fmt::format("{} (position {}, waited {}s)", e.summary, queue_position(engine_.state(), *w),
                            seconds(e.waiting))};
    for (const auto& c : e.causes) {
      lines.push_back(fmt::format("cause {}: {}", c.code, c.message));
      if (!c.remedy.empty()) lines.push_back("remedy " + c.remedy);
    }
    for (const auto& option : remedies(engine_.tables(), engine_.options(), w->spec.uid, now_)) {
      std::string line = fmt::format("option {}: {}", option.code, option.message);
      for (const auto& workload : option.workloads) line += fmt::format(" {}", workload);
      lines.push_back(line);
    }
    return lines;
  }

  Words queue(const std::string& name) {
    const auto* q = engine_.tables().cluster_queues.find(QueueName(name));
    if (q == nullptr) return {"unknown"};
    const auto v = queue_view(engine_.state(), *q);
    std::string line =
        fmt::format("ready {} backed-off {} holding {}", v.pending_ready, v.pending_backed_off, v.holding);
    for (const auto& [resource, used] : v.used) {
      line += fmt::format(" {} {}/{}", resource, show_amount(resource, used),
                          show_amount(resource, v.nominal.at(resource)));
      if (v.borrowed.at(resource) > 0)
        line += fmt::format(" borrowed {}", show_amount(resource, v.borrowed.at(resource)));
    }
    return {line};
  }

  Words account(const std::string& name) {
    const auto* row = engine_.tables().budgets.find(name);
    if (row == nullptr) return {"unknown"};
    auto budget = row->account;
    const auto show = [&](std::int64_t amount) { return show_budget(row->terms.dollars, amount); };
    Words lines{fmt::format("free {} owed {}", show(budget.free(now_)), show(budget.owed()))};
    for (const auto& [from, one] : budget.allotments()) {
      lines.push_back(fmt::format("{}m granted {} spent {} held {}", (from - kBegin) / std::chrono::minutes(1),
                                  show(one.granted), show(one.spent), show(one.held)));
    }
    return lines;
  }

  static constexpr Instant kBegin = Instant(std::chrono::seconds(1'700'000'000));
  Engine engine_;
  std::optional<Instant> wake_at_;
  Instant now_ = kBegin;
  std::uint64_t sequence_ = 0;
  std::map<std::string, Instant> submitted_;
  std::string last_create_;
};

TEST(AdmissionCases, Tables) {
  const std::filesystem::path dir = std::string(QM_SOURCE_DIR) + "/services/admission/test/cases";
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_FALSE(files.empty());
  const bool write = std::getenv("QM_UPDATE_CASES") != nullptr;
  for (const auto& file : files) {
    std::ifstream in(file);
    std::string line, rewritten;
    auto runner = std::make_unique<Runner>();
    Words found;
    std::size_t met = 0;
    int number = 0, command_line = 0;
    const auto report_extra = [&] {
      for (; met < found.size() && !write; ++met) {
        ADD_FAILURE() << file << ":" << command_line << ": also happened: " << found[met];
      }
    };
    while (std::getline(in, line)) {
      ++number;
      const bool expectation = line.rfind("  ", 0) == 0;
      if (expectation && write) continue;
      rewritten += line + "\n";
      if (line.empty() || line[0] == '#') continue;
      if (expectation) {
        if (met >= found.size()) {
          ADD_FAILURE() << file << ":" << number << ": did not happen:" << line;
        } else {
          EXPECT_EQ(line.substr(2), found[met]) << file << ":" << number;
          ++met;
        }
        continue;
      }
      report_extra();
      found.clear();
      met = 0;
      command_line = number;
      if (line.rfind("==", 0) == 0) {
        runner = std::make_unique<Runner>();
        continue;
      }
      found = runner->run(line);
      if (write) {
        for (const auto& text : found) rewritten += "  " + text + "\n";
      }
    }
    report_extra();
    if (write) std::ofstream(file) << rewritten;
  }
}

}  // namespace case_test
}  // namespace qm::admission
