#include "checkpoints.hpp"

#include "checkpoint_target.hpp"
#include "qm/base/log.hpp"
#include "qm/http/http.hpp"
#include "qm/model/checkpoint.hpp"

#include <algorithm>

namespace qm::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAgainAfter{250}, kSlice{50};
constexpr std::size_t kMaxMessage = 1024;  // of an acknowledgement, in bytes

milliseconds left(SteadyInstant until) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(until - steady_clock::now()));
}

Result<Saved> read_answer(const Rank& rank, int status, const std::string& body) {
  if (status != 200) {
    return fail(status >= 500 ? Code::kUnavailable : Code::kFailedPrecondition, "{}/{} answers with status {}", rank.ns,
                rank.name, status);
  }
  const auto json = Json::parse(body);
  if (!json || !(*json)["step"].is_int() || (*json)["step"].integer() < 0)
    return fail(Code::kInvalid, "{}/{} answers without a step", rank.ns, rank.name);
  const std::string& uri = (*json)["uri"].string();
  if (const auto checked = check_resume_uri(uri); !checked)
    return fail(Code::kInvalid, "{}/{} answers with a URI that cannot be used: {}", rank.ns, rank.name,
                checked.error().message);
  return Saved{(*json)["step"].integer(), uri};
}

}  // namespace

struct Checkpoints::Round {
  pb::CheckpointOrder order;
  std::string node, body;
  std::vector<Rank> ranks;
  std::mutex mutex;
  std::vector<Result<Saved>> answers;
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
    round->body = Json::object({{"deadline", to_rfc3339(from_micros(order.deadline_us()))},
                                {"reason", order.reason()},
                                {"gang", order.uid()}})
                      .dump();
    workers_.post([this, round] { begin(round); });
  }
}

void Checkpoints::begin(const std::shared_ptr<Round>& round) {
  // Without the list of pods no rank is found, and an acknowledgement that reports no rank is final.
  if (!pods_.wait_synced(round->node, options_.timeout))
    log::warn("pods are not listed yet", {{"order", round->order.id()}});
  const auto& order = round->order;
  auto ranks = pods_.ranks(round->node, {order.uid(), order.namespace_(), order.kind()}, order.attempt());
  round->ranks = std::move(ranks.own);
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
    workers_.post([this, round, i] { answered(round, i, ask(round->ranks[i], round->body)); });
  }
}

void Checkpoints::answered(const std::shared_ptr<Round>& round, std::size_t index, Result<Saved> answer) {
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
  ack.set_at_us(micros(clock_.now()));
  const Saved* least = nullptr;
  for (const auto& answer : round.answers) {
    if (!answer) {
      const Error& error = answer.error();
      if (ack.message().empty())
        ack.set_message(error.remedy.empty() ? error.message : fmt::format("{}: {}", error.message, error.remedy));
    } else if (least == nullptr || answer->step < least->step) {
      least = &*answer;
    }
  }
  if (round.order.namespace_().empty()) {
    ack.set_message("the order names no namespace, so its pods are not known: update the autoscaler and telemetry");
  } else if (round.ranks.empty()) {
    ack.set_message("no rank of it runs on this node");
  }
  if (ack.message().size() > kMaxMessage) ack.mutable_message()->resize(kMaxMessage);
  ack.set_ok(ack.message().empty());
  if (least != nullptr) {
    ack.set_step(least->step);
    ack.set_uri(least->uri);
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

Result<Saved> Checkpoints::ask(const Rank& rank, const std::string& body) const {
  QM_ASSIGN(const auto target, checkpoint_target(rank, options_.gateway));
  const SteadyInstant until = steady_clock::now() + options_.timeout;
  while (true) {
    auto answer = ask_once(rank, target, body, until);
    const bool again = !answer && (answer.error().code == Code::kUnavailable || answer.error().code == Code::kUnknown);
    if (!again || stopping_ || steady_clock::now() + kAgainAfter >= until) return answer;
    const SteadyInstant next = steady_clock::now() + kAgainAfter;
    while (!stopping_ && steady_clock::now() < next) std::this_thread::sleep_for(kSlice);
  }
}

/// Streamed, because a stream can be canceled when the agent stops.
Result<Saved> Checkpoints::ask_once(const Rank& rank, const CheckpointTarget& target, const std::string& body,
                                    SteadyInstant until) const {
  http::ClientOptions options;
  options.connect_timeout = options.timeout = left(until);
  http::Client client(target.origin, options);
  http::Request request;
  request.method = "POST";
  request.target = target.path;
  request.headers.set("Content-Type", "application/json");
  request.body = body;
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
      [&] { return stopping_ || steady_clock::now() >= until; });
  if (too_long) return fail(Code::kInvalid, "{}/{} answers with more than {} bytes", rank.ns, rank.name, kMaxAnswer);
  if (!ended && ended.error().code == Code::kCancelled) {
    return fail(Code::kDeadlineExceeded, "{}/{} does not answer within {} ms", rank.ns, rank.name,
                options_.timeout.count());
  }
  if (!ended) return fail(ended.error().with_context(rank.ns + "/" + rank.name));
  return read_answer(rank, status, answer);
}

}  // namespace qm::agent
