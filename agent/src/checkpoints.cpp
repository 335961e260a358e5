#include "checkpoints.hpp"

#include "checkpoint_files.hpp"
#include "checkpoint_signal.hpp"
#include "qm/base/log.hpp"
#include "qm/http/http.hpp"
#include "qm/wire/model.hpp"

#include <algorithm>

namespace qm::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAgainAfter{250}, kPoll{100}, kSlice{50};
constexpr milliseconds kListed{5000};      // for the first list of pods
constexpr milliseconds kProbe{2000};       // to connect, where another mode is left
constexpr milliseconds kLeast{1000};       // for an order that arrives at its deadline
constexpr std::size_t kMaxMessage = 1024;  // of an acknowledgement, in bytes

milliseconds left(SteadyInstant until) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(until - steady_clock::now()));
}

/// No other rank or mode is tried after an answer; the rank may not have been reached otherwise.
bool is_unreached(const Error& error) {
  return error.code == Code::kUnavailable || error.code == Code::kUnknown || error.code == Code::kNotFound;
}

std::string fence_of(const pb::CheckpointOrder& order) { return fmt::format("{}-{}", order.attempt(), order.number()); }

/// "rank-2" is before "rank-10".
bool is_before(const Rank& a, const Rank& b) {
  return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
}

/// One entry for each step, in the order of steps; the URI is that of the first rank.
std::vector<StepSave> by_step(const std::vector<Result<RankAnswer>>& answers) {
  std::map<std::int64_t, StepSave> out;
  for (const auto& answer : answers) {
    if (!answer) continue;
    StepSave& sum = out[answer->save.step];
    sum.step = answer->save.step;
    ++sum.ranks;
    sum.bytes += answer->save.bytes;
    sum.epoch = std::max(sum.epoch, answer->save.epoch);
    sum.took = std::max(sum.took, answer->save.took);
    if (sum.uri.empty()) sum.uri = answer->save.uri;
  }
  std::vector<StepSave> list;
  for (auto& [step, save] : out) list.push_back(std::move(save));
  return list;
}

}  // namespace

struct Checkpoints::Round {
  pb::CheckpointOrder order;
  std::string node, fence;
  std::vector<Rank> ranks;
  std::mutex mutex;
  std::vector<Result<RankAnswer>> answers;
  std::size_t open = 0;
};

Checkpoints::Checkpoints(const Pods& pods, Facts& facts, const DomainClock& clock, Options options)
    : pods_(pods), facts_(facts), clock_(clock), options_(std::move(options)) {}

Checkpoints::~Checkpoints() { stop(); }

void Checkpoints::stop() {
  stopping_ = true;
  workers_.stop();
}

void Checkpoints::order(const pb::CheckpointOrder& order, const std::vector<std::string>& own) {
  for (const auto& node : own) {
    const Key key{order.id(), node};
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = done_.find(key); known != done_.end()) {
        send(node, known->second);
        continue;
      }
      if (std::ranges::find(in_progress_, key) != in_progress_.end()) continue;
      in_progress_.push_back(key);
    }
    log::info("checkpoint ordered", {{"order", order.id()}, {"node", node}, {"reason", order.reason()}});
    auto round = std::make_shared<Round>();
    round->order = order;
    round->node = node;
    round->fence = fence_of(order);
    workers_.post([this, round] { begin(round); });
  }
}

void Checkpoints::begin(const std::shared_ptr<Round>& round) {
  // Without the list of pods no rank is found, and an acknowledgement that reports no rank is final.
  if (!pods_.wait_synced(round->node, kListed)) log::warn("pods are not listed yet", {{"order", round->order.id()}});
  const auto& order = round->order;
  auto ranks = pods_.ranks(round->node, {order.uid(), order.namespace_(), order.kind()}, order.attempt());
  round->ranks = std::move(ranks.own);
  std::ranges::sort(round->ranks, is_before);
  if (!ranks.foreign.empty()) {
    log::warn("pods name a workload that is not their controller; they get no checkpoint order",
              {{"order", order.id()}, {"pods", ranks.foreign.size()}, {"first", ranks.foreign.front()}});
  }
  round->answers.assign(round->ranks.size(), fail(Code::kCancelled, "no checkpoint order"));
  round->open = round->ranks.size();
  if (round->ranks.empty()) {
    finish(*round);
    return;
  }
  for (std::size_t i = 0; i < round->ranks.size(); ++i) {
    workers_.post([this, round, i] { answered(round, i, ask(round->ranks[i], *round)); });
  }
}

void Checkpoints::answered(const std::shared_ptr<Round>& round, std::size_t index, Result<RankAnswer> answer) {
  {
    const std::lock_guard lock(round->mutex);
    round->answers[index] = std::move(answer);
    if (--round->open > 0) return;
  }
  finish(*round);
}

void Checkpoints::finish(Round& round) {
  if (stopping_) return;
  pb::CheckpointAck ack;
  ack.set_order_id(round.order.id());
  ack.set_uid(round.order.uid());
  ack.set_namespace_(round.order.namespace_());
  ack.set_attempt(round.order.attempt());
  ack.set_node(round.node);
  ack.set_ranks(static_cast<std::int32_t>(round.ranks.size()));
  ack.set_number(round.order.number());
  ack.set_at_us(micros(clock_.now()));
  for (const auto& answer : round.answers) {
    if (answer || !ack.message().empty()) continue;
    const Error& error = answer.error();
    ack.set_message(error.remedy.empty() ? error.message : fmt::format("{}: {}", error.message, error.remedy));
  }
  const auto saves = by_step(round.answers);
  for (const auto& save : saves) *ack.add_saves() = wire::to_pb(save);
  if (round.order.namespace_().empty()) {
    ack.set_message("the order names no namespace, so its pods are not known: update the autoscaler and telemetry");
  } else if (round.ranks.empty()) {
    ack.set_message("no rank of it runs on this node");
  }
  if (ack.message().size() > kMaxMessage) ack.mutable_message()->resize(kMaxMessage);
  ack.set_ok(ack.message().empty());
  if (!saves.empty()) {
    ack.set_step(saves.front().step);
    ack.set_uri(saves.front().uri);
  }
  log::info("checkpoint done", {{"order", ack.order_id()},
                                {"node", ack.node()},
                                {"ranks", ack.ranks()},
                                {"step", ack.step()},
                                {"ok", ack.ok()},
                                {"message", ack.message()}});
  const Key key{ack.order_id(), ack.node()};
  const std::lock_guard lock(mutex_);
  std::erase(in_progress_, key);
  if (ack.ok()) {
    if (done_.size() >= kRemembered) {
      done_.erase(std::ranges::min_element(done_, {}, [](const auto& entry) { return entry.second.at_us(); }));
    }
    done_.emplace(key, ack);
  }
  send(round.node, ack);
}

void Checkpoints::send(const std::string& node, const pb::CheckpointAck& ack) {
  pb::AgentFact fact;
  *fact.mutable_ack() = ack;
  if (!facts_.add(node, std::move(fact)))
    log::warn("too many facts are unacknowledged; the order will be repeated", {{"order", ack.order_id()}});
}

SteadyInstant Checkpoints::end_of(const pb::CheckpointOrder& order) const {
  const auto left = std::max<SteadyDuration>(clock_.until(from_micros(order.deadline_us())), kLeast);
  return steady_clock::now() + std::min<SteadyDuration>(left, options_.timeout);
}

Result<RankAnswer> Checkpoints::ask(const Rank& rank, const Round& round) const {
  auto contract = config::checkpoint_contract(rank.checkpoint);
  if (!contract) {
    Error error = contract.error();
    error.message = fmt::format("{}/{}: annotation {}: {}", rank.ns, rank.name, words::kCheckpoint, error.message);
    return fail(std::move(error));
  }
  const Instant begun = clock_.now();
  Call call{rank, std::move(*contract), round.fence, {}, end_of(round.order)};
  Json body = Json::object({{"deadline", to_rfc3339(from_micros(round.order.deadline_us()))},
                            {"reason", round.order.reason()},
                            {"gang", round.order.uid()},
                            {"attempt", round.order.attempt()},
                            {"fence", round.fence}});
  if (!call.contract.terms.uri.empty()) body.set("uri", call.contract.terms.uri);
  if (!call.contract.copy.empty()) body.set("copy", call.contract.copy);
  call.body = body.dump();
  auto answer = first_mode(call);
  if (answer && answer->save.took == Duration{0}) answer->save.took = clock_.now() - begun;
  return answer;
}

// The modes are probed in this order. A mode that does not reach the rank leaves the order to the next one.
Result<RankAnswer> Checkpoints::first_mode(const Call& call) const {
  const bool others = !call.contract.file.empty() || !call.contract.signal.empty();
  if (!call.contract.http.empty() || !others) {
    auto answer = over_http(call, !others);
    if (answer || !others || !is_unreached(answer.error())) return answer;
  }
  if (!call.contract.file.empty() && call.contract.signal.empty()) return over_file(call);
  if (!call.contract.file.empty()) {
    auto answer = over_file(call, /*also_signal=*/true);
    if (answer || !is_unreached(answer.error())) return answer;
  }
  return over_signal(call);
}

Result<RankAnswer> Checkpoints::accepted(const Call& call, const std::string& text) const {
  QM_ASSIGN(auto answer, read_rank_answer(call.rank, text));
  if (!answer.fence.empty() && answer.fence != call.fence) {
    return fail(Code::kFailedPrecondition, "{}/{} answers the order {}, and the order is {}", call.rank.ns,
                call.rank.name, answer.fence, call.fence);
  }
  return answer;
}

Result<RankAnswer> Checkpoints::over_http(const Call& call, bool only) const {
  Rank rank = call.rank;
  rank.checkpoint = call.contract.http;
  QM_ASSIGN(const auto target, checkpoint_target(rank, options_.gateway));
  while (true) {
    auto text = post_once(call, target, only ? left(call.until) : kProbe);
    if (text) return accepted(call, *text);
    if (!only || !is_unreached(text.error()) || !pause(call.until, kAgainAfter)) return fail(text.error());
  }
}

/// Streamed, because a stream can be canceled when the agent stops.
Result<std::string> Checkpoints::post_once(const Call& call, const CheckpointTarget& target,
                                           std::chrono::milliseconds connect) const {
  const Rank& rank = call.rank;
  http::ClientOptions options;
  options.timeout = left(call.until);
  options.connect_timeout = std::min(connect, options.timeout);
  http::Client client(target.origin, options);
  http::Request request;
  request.method = "POST";
  request.target = target.path;
  request.headers.set("Content-Type", "application/json");
  request.body = call.body;
  int status = 0;
  std::string answer;
  bool too_long = false;
  const auto ended = client.stream(
      request,
      [&](const http::Response& head) {
        status = head.status;
        return true;
      },
      [&](std::string_view chunk) {
        too_long = answer.size() + chunk.size() > kMaxAnswer;
        if (!too_long) answer.append(chunk);
        return !too_long;
      },
      [&] { return stopping_ || steady_clock::now() >= call.until; });
  if (too_long) return fail(Code::kInvalid, "{}/{} answers with more than {} bytes", rank.ns, rank.name, kMaxAnswer);
  if (!ended && ended.error().code == Code::kCancelled) return fail(silent(call));
  if (!ended) return fail(ended.error().with_context(rank.ns + "/" + rank.name));
  if (status != 200) {
    return fail(status >= 500 ? Code::kUnavailable : Code::kFailedPrecondition, "{}/{} answers with status {}", rank.ns,
                rank.name, status);
  }
  return answer;
}

// The file may be on storage that outlives the pod, so only an answer with the fence of this order counts.
Result<RankAnswer> Checkpoints::over_file(const Call& call, bool also_signal) const {
  if (options_.kubelet_pods.empty())
    return fail(Error{Code::kNotFound, "the agent has no folder of the kubelet's pods", "kubelet-pods",
                      "set kubelet-pods of the agent"});
  QM_ASSIGN(auto files, CheckpointFiles::open(options_.kubelet_pods, call.rank.uid, call.contract.file));
  QM_TRY(files.write_order(call.body));
  if (also_signal) QM_TRY(signal(call));
  do {
    QM_ASSIGN(const auto text, files.read_answer());
    if (!text) continue;
    QM_ASSIGN(auto answer, read_rank_answer(call.rank, *text));
    if (answer.fence == call.fence) return answer;
  } while (pause(call.until, kPoll));
  return fail(silent(call));
}

Status Checkpoints::signal(const Call& call) const {
  if (options_.proc.empty())
    return fail(Error{Code::kNotFound, "the agent does not see the processes of the node", "proc",
                      "set proc of the agent, and run it in the host's pid namespace"});
  return signal_pod(options_.proc, call.rank.uid, call.contract.signal);
}

// A signal carries no fence: the rank answers in an annotation of its pod, which must be a new one.
Result<RankAnswer> Checkpoints::over_signal(const Call& call) const {
  QM_TRY(signal(call));
  do {
    const std::string text = pods_.checkpoint_answer(call.rank.node, call.rank.uid);
    if (!text.empty() && text != call.rank.answer) return accepted(call, text);
  } while (pause(call.until, kPoll));
  return fail(silent(call));
}

Error Checkpoints::silent(const Call& call) const {
  return Error{Code::kDeadlineExceeded,
               fmt::format("{}/{} does not answer before the deadline", call.rank.ns, call.rank.name)};
}

bool Checkpoints::pause(SteadyInstant until, SteadyDuration period) const {
  const SteadyInstant next = steady_clock::now() + period;
  if (stopping_ || next >= until) return false;
  while (!stopping_ && steady_clock::now() < next)
    std::this_thread::sleep_for(std::min<SteadyDuration>(period, kSlice));
  return !stopping_;
}

}  // namespace qm::agent
