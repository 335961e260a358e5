// qm-replay: steps the engine of a service through its journal, and compares the state with that of the database.
#include "qm/base/digest.hpp"
#include "qm/base/json.hpp"
#include "qm/pg/connection.hpp"
#include "quartermaster/v1/journal.pb.h"
#include "shells.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <map>

namespace qm::replay {
namespace {

constexpr std::int64_t kRowsAtOnce = 500;

struct Options {
  std::string postgres, service, shard = "default", out;
  std::vector<std::string> sets;
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

/// What a batch decided, as one digest: the texts of equal decisions are equal.
std::uint64_t digest_of(const service::Effects& effects) {
  Digest out;
  for (const auto& event : effects.events)
    out.add(event.topic).add(event.key).add(event.payload).add(std::int64_t{event.tombstone});
  for (const auto& intent : effects.intents) out.add(intent.id).add(intent.kind).add(intent.key).add(intent.payload);
  for (const auto& answer : effects.answers) out.add(answer.reply ? *answer.reply : answer.reply.error().to_string());
  return out.value();
}

Status apply(service::Shell& shell, const pg::Rows& rows, std::size_t row, Replayed& out, std::ofstream& lines) {
  const auto sequence = rows.uint8(row, 0);
  quartermaster::v1::JournalBatch batch;
  if (!batch.ParseFromString(rows.bytes(row, 2)))
    return fail(Code::kInternal, "batch {} of the journal cannot be read", sequence);
  std::vector<service::Input> inputs;
  for (const auto& input : batch.inputs()) {
    inputs.push_back({static_cast<service::Source>(input.source()), input.name(), input.bytes(), input.id(),
                      input.key(), input.version(), input.tombstone(), input.trace_parent()});
  }
  service::Effects effects;
  std::vector<std::pair<std::size_t, Error>> poison;
  shell.step(inputs, from_micros(rows.int8(row, 1)), effects, poison);
  shell.commit();
  for (auto& changed : effects.state) {
    if (changed.value) {
      out.state[{changed.kind, changed.key}] = std::move(*changed.value);
    } else {
      out.state.erase({changed.kind, changed.key});
    }
  }
  const auto recorded = rows.uint8(row, 3);
  if (recorded != 0 && recorded != shell.digest())
    return fail(Code::kFailedPrecondition, "the state after batch {} differs from the recorded one", sequence);
  const auto decided = digest_of(effects);
  ++out.batches;
  out.inputs += inputs.size();
  out.events += effects.events.size();
  out.intents += effects.intents.size();
  out.decisions.add(static_cast<std::int64_t>(decided));
  if (lines.is_open()) lines << fmt::format("{} {} {} {:016x}\n", sequence, rows.int8(row, 1), inputs.size(), decided);
  return {};
}

Result<Replayed> replay(const Options& options, service::Shell& shell, pg::Connection& session,
                        const std::string& schema) {
  std::ofstream lines;
  if (!options.out.empty()) lines.open(options.out);
  Replayed out;
  const auto select = fmt::format(
      "select sequence, now, bytes, digest from {}.journal where sequence > $1::bigint order by sequence limit {}",
      schema, kRowsAtOnce);
  for (std::int64_t last = 0;;) {
    QM_ASSIGN(const auto rows, session.query(select, pg::Params().int8(last)));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (rows.int8(row, 0) != last + 1) {
        return fail({Code::kFailedPrecondition,
                     fmt::format("the journal of {}/{} has no batch {}: the next one is {}", options.service,
                                 options.shard, last + 1, rows.int8(row, 0)),
                     "--postgres", "use a copy of the database from before the journal was shortened"});
      }
      QM_TRY(apply(shell, rows, row, out, lines));
      ++last;
    }
    if (rows.size() < static_cast<std::size_t>(kRowsAtOnce)) return out;
  }
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

Status run(const Options& options) {
  QM_ASSIGN(const auto values, values_of(options.sets));
  QM_ASSIGN(const auto shell, open_shell(options.service, values));
  QM_ASSIGN(const auto session, pg::Connection::open(options.postgres, {"qm-replay", std::chrono::minutes(5)}));
  const auto schema =
      pg::quote_name(options.shard == "default" ? options.service : options.service + "_" + options.shard);
  // The journal and the state of one moment, while the service goes on.
  QM_TRY(session->exec("begin isolation level repeatable read read only"));
  QM_ASSIGN(const auto replayed, replay(options, *shell, *session, schema));
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
