// qm-replay: steps the engine of a service through its journal, and compares the state with that of the database.
#include "journal.hpp"
#include "qm/autoscaler/history/recorder.hpp"
#include "qm/autoscaler/settings.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/json.hpp"
#include "qm/pg/connection.hpp"
#include "shells.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

namespace qm::replay {
namespace {

constexpr std::int64_t kAllDemand = 100;

struct Options {
  std::string postgres, service, shard = "default", out, why, what_if, output = "text";
  std::vector<std::string> sets;
  std::int64_t demand_percent = kAllDemand;
};

/// The state rows by kind and key.
using StateRows = std::map<std::pair<std::string, std::string>, std::string>;

struct Replayed {
  std::uint64_t batches = 0, inputs = 0, events = 0, intents = 0;
  Digest decisions;  ///< of all events, intents and answers
  StateRows state;
};

Result<settings::Values> values_of(const std::vector<std::string>& sets) {
  settings::Values out;
  for (const auto& set : sets) {
    const auto equals = set.find('=');
    if (equals == std::string::npos)
      return fail({Code::kInvalid, fmt::format("\"{}\" is not a setting", set), "--set", "use NAME=VALUE"});
    out[set.substr(0, equals)] = set.substr(equals + 1);
  }
  return out;
}

Result<autoscaler::HistoryChange> read_change(const std::string& path, std::int64_t demand_percent) {
  std::string text;
  if (!path.empty()) {
    std::ifstream file(path);
    if (!file) return fail({Code::kInvalid, fmt::format("{} cannot be read", path), "--what-if", "name a file"});
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  return autoscaler::history_change_from(text, demand_percent);
}

/// What a batch decided, as one digest: the texts of equal decisions are equal.
std::uint64_t digest_of(const service::Effects& effects) {
  Digest out;
  for (const auto& event : effects.events)
    out.add(event.topic).add(event.key).add(event.payload).add(std::int64_t{event.tombstone});
  for (const auto& intent : effects.intents) out.add(intent.id).add(intent.kind).add(intent.key).add(intent.payload);
  for (const auto& answer : effects.answers) out.add(answer.reply ? *answer.reply : answer.reply.error().to_string());
  return out.value();
}

/// Follows the batches of a replay.
struct Observer {
  std::function<void(const service::Input&, Instant)> input = [](const auto&, Instant) {};
  /// After the step of the batch; false ends the replay.
  std::function<bool(const service::Effects&, Instant)> decided = [](const auto&, Instant) { return true; };
};

/// Returns whether the replay goes on.
Result<bool> apply(service::Shell& shell, const Batch& batch, const Observer& observer, Replayed& out,
                   std::ofstream& lines) {
  for (const auto& input : batch.inputs) observer.input(input, batch.now);
  service::Effects effects;
  std::vector<std::pair<std::size_t, Error>> poison;
  shell.step(batch.inputs, batch.now, effects, poison);
  shell.commit();
  const auto decided = digest_of(effects);
  const bool goes_on = observer.decided(effects, batch.now);
  for (auto& changed : effects.state) {
    if (changed.value) {
      out.state[{changed.kind, changed.key}] = std::move(*changed.value);
    } else {
      out.state.erase({changed.kind, changed.key});
    }
  }
  if (batch.digest != 0 && batch.digest != shell.digest())
    return fail(Code::kFailedPrecondition, "the state after batch {} differs from the recorded one", batch.sequence);
  ++out.batches;
  out.inputs += batch.inputs.size();
  out.events += effects.events.size();
  out.intents += effects.intents.size();
  out.decisions.add(static_cast<std::int64_t>(decided));
  if (lines.is_open())
    lines << fmt::format("{} {} {} {:016x}\n", batch.sequence, micros(batch.now), batch.inputs.size(), decided);
  return goes_on;
}

Result<Replayed> replay(const Options& options, service::Shell& shell, pg::Connection& session,
                        const std::string& schema, const Observer& observer) {
  std::ofstream lines;
  if (!options.out.empty()) lines.open(options.out);
  Replayed out;
  QM_TRY(for_each_batch(session, schema,
                        [&](const Batch& batch) -> Result<bool> { return apply(shell, batch, observer, out, lines); }));
  return out;
}

/// Rows that the database and the replay do not have alike, as kind/key.
Result<std::vector<std::string>> differences(const Replayed& replayed, pg::Connection& session,
                                             const std::string& schema) {
  QM_ASSIGN(const auto rows, session.query(fmt::format("select kind, key, value from {}.state", schema)));
  auto missing = replayed.state;
  std::vector<std::string> out;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto found = missing.find({rows.str(row, 0), rows.str(row, 1)});
    if (found == missing.end() || found->second != rows.bytes(row, 2))
      out.push_back(rows.str(row, 0) + "/" + rows.str(row, 1));
    if (found != missing.end()) missing.erase(found);
  }
  for (const auto& [key, value] : missing) out.push_back(key.first + "/" + key.second);
  return out;
}

/// The candidates of the launch of a claim, as of its batch.
Status explain_launch(const Options& options, service::Shell& shell, pg::Connection& session,
                      const std::string& schema) {
  std::optional<Json> found;
  Status failed;
  Observer observer;
  observer.decided = [&](const service::Effects& effects, Instant now) {
    const bool launched =
        std::ranges::any_of(effects.events, [&](const auto& event) { return event.key == "instance/" + options.why; });
    if (!launched) return true;
    auto decision = autoscaler::decision_of_launch(autoscaler::engine_of(shell), now, options.why);
    if (decision) found = std::move(*decision);
    if (!decision) failed = fail(decision.error());
    return false;
  };
  QM_TRY(replay(options, shell, session, schema, observer));
  QM_TRY(failed);
  if (!found) {
    return fail({Code::kNotFound, fmt::format("the journal has no launch of NodeClaim {}", options.why), "--why",
                 "qmctl claims lists the NodeClaims"});
  }
  fmt::print("{}\n", found->pretty());
  return {};
}

/// The bill of the recorded time, and that of the same time with a change.
Status replay_with_change(const Options& options, service::Shell& shell, pg::Connection& session,
                          const std::string& schema, const settings::Values& values) {
  QM_ASSIGN(const auto change, read_change(options.what_if, options.demand_percent));
  QM_ASSIGN(const auto chosen, autoscaler::settings_table().read(values));
  const auto catalog = autoscaler::catalog_types();
  autoscaler::Recorder recorder(catalog);
  Observer observer;
  observer.input = [&](const auto& input, Instant now) { recorder.observe(input, now); };
  observer.decided = [&](const service::Effects& effects, Instant) {
    for (const auto& event : effects.events) recorder.observe(event);
    return true;
  };
  QM_ASSIGN(const auto replayed, replay(options, shell, session, schema, observer));
  const auto history = recorder.history();
  const auto engine_options = autoscaler::engine_options(chosen);
  QM_ASSIGN(const auto same, autoscaler::replay_bill(history, catalog, engine_options, {}));
  QM_ASSIGN(const auto changed, autoscaler::replay_bill(history, catalog, engine_options, change));
  if (options.output == "json") {
    Json report = autoscaler::report_of(recorder.bill(), same, changed);
    report.set("from", to_rfc3339(history.from)), report.set("to", to_rfc3339(history.to));
    report.set("batches", static_cast<std::int64_t>(replayed.batches));
    report.set("decisions", replayed.decisions.hex());
    fmt::print("{}\n", report.pretty());
  } else {
    fmt::print("{} to {}: {} batches, decisions {}, equal to the recorded ones\n{}", to_rfc3339(history.from),
               to_rfc3339(history.to), replayed.batches, replayed.decisions.hex(),
               autoscaler::text_of(recorder.bill(), same, changed));
  }
  return {};
}

Status run(const Options& options) {
  const bool simulates = !options.what_if.empty() || options.demand_percent != kAllDemand;
  if ((simulates || !options.why.empty()) && options.service != "autoscaler") {
    return fail({Code::kInvalid,
                 fmt::format("--what-if, --demand and --why are of the autoscaler, not of {}", options.service),
                 "--service", "use --service autoscaler"});
  }
  QM_ASSIGN(const auto values, values_of(options.sets));
  QM_ASSIGN(const auto shell, open_shell(options.service, values));
  QM_ASSIGN(const auto session, pg::Connection::open(options.postgres, {"qm-replay", std::chrono::minutes(5)}));
  const auto schema =
      pg::quote_name(options.shard == "default" ? options.service : options.service + "_" + options.shard);
  // The journal and the state of one moment, while the service goes on.
  QM_TRY(session->exec("begin isolation level repeatable read read only"));
  if (!options.why.empty()) return explain_launch(options, *shell, *session, schema);
  if (simulates) return replay_with_change(options, *shell, *session, schema, values);
  QM_ASSIGN(const auto replayed, replay(options, *shell, *session, schema, {}));
  QM_ASSIGN(const auto differ, differences(replayed, *session, schema));
  fmt::print("{}/{}: {} batches, {} inputs, {} events, {} intents; decisions {}; {} of {} state rows differ\n",
             options.service, options.shard, replayed.batches, replayed.inputs, replayed.events, replayed.intents,
             replayed.decisions.hex(), differ.size(), replayed.state.size());
  if (differ.empty()) return {};
  return fail({Code::kFailedPrecondition,
               fmt::format("the replay has another state than the database, first of all in {}", differ.front()),
               "--set", "give the settings of the service that wrote the journal, and use its release"});
}

}  // namespace
}  // namespace qm::replay

int main(int argc, char** argv) {
  qm::replay::Options options;
  CLI::App app{
      "Replays the journal of a service: the same inputs at the same time, in a new engine. Prints a digest of "
      "the decisions, and compares the state with that of the database, which it only reads."};
  app.add_option("--postgres", options.postgres, "Connection string of the database.")->required();
  app.add_option("--service", options.service, "admission, placement, autoscaler, telemetry or cost.")->required();
  app.add_option("--shard", options.shard, "Shard of the service.")->capture_default_str();
  app.add_option("--set", options.sets, "A setting of the service, as NAME=VALUE; may be repeated.");
  app.add_option("--why", options.why, "Autoscaler: print the decision that launched this NodeClaim, with candidates.");
  app.add_option(
      "--what-if", options.what_if,
      "Autoscaler: file with a SimulateCapacityRequest as JSON; prints the bill with and without the change.");
  app.add_option("--demand", options.demand_percent, "Autoscaler: percentage of the recorded workloads that arrive.")
      ->capture_default_str();
  app.add_option("-o,--output", options.output, "Of --what-if: text or json.")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--out", options.out, "File for one line per batch: sequence, time, inputs, digest of its decisions.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const auto done = qm::replay::run(options); !done) {
    std::fprintf(stderr, "qm-replay: %s\n", done.error().to_string().c_str());
    return done.error().code == qm::Code::kInvalid ? 2 : 1;
  }
  return 0;
}
