// Tables and JSON use the same words: a column is named after the JSON field that it shows, and its cells are that
// field's values.
#include "fake_suite.hpp"
#include "qm/base/json.hpp"
#include "qm/wire/words.hpp"
#include "src/options.hpp"
#include "src/print.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

namespace qm::cli {
namespace same_words_test {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// ---- enums in JSON ------------------------------------------------------------------------------------------------

/// Sets the n-th value of its enum in every enum field of the message and of all nested messages, and records the
/// words.
void fill(google::protobuf::Message& message, int n, std::set<std::string>& words, std::set<std::string>& names,
          int depth = 0) {
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto* field = message.GetDescriptor()->field(i);
    const auto* oneof = field->real_containing_oneof();
    if (oneof != nullptr && reflection->HasOneof(message, oneof)) continue;  // the others are messages too
    if (const auto* type = field->enum_type()) {
      const auto* value = type->value(n % type->value_count());
      if (field->is_repeated()) {
        reflection->AddEnum(&message, field, value);
      } else {
        reflection->SetEnum(&message, field, value);
      }
      names.insert(value->name());
      words.insert(wire::word_of(*type, value->number()));
    } else if (field->message_type() != nullptr && depth < 6) {
      fill(field->is_repeated() ? *reflection->AddMessage(&message, field)
                                : *reflection->MutableMessage(&message, field),
           n, words, names, depth + 1);
    }
  }
}

void texts_of(const Json& value, std::multimap<std::string, std::string>& out, const std::string& key = {}) {
  for (const auto& [name, member] : value.members()) texts_of(member, out, name);
  for (const auto& item : value.items()) texts_of(item, out, key);
  if (value.is_string()) out.emplace(key, value.string());
  if (value.is_bool()) out.emplace(key, value.boolean() ? "true" : "false");
  if (value.is_number()) out.emplace(key, value.dump());
  if (value.is_object() || value.is_array() || value.is_null()) out.emplace(key, "");
}

TEST(SameWords, NoMessageHasTheProtoNameOfAValueInItsJson) {
  int enums = 0;
  for (const auto* file :
       {pb::Workload::descriptor()->file(), pb::CapacityPlan::descriptor()->file(), pb::Statement::descriptor()->file(),
        pb::Gap::descriptor()->file(), pb::EventLine::descriptor()->file(), pb::WorkloadEvent::descriptor()->file()}) {
    for (int m = 0; m < file->message_type_count(); ++m) {
      const auto* prototype =
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(file->message_type(m));
      for (int n = 0; n < 9; ++n) {  // more values than any enum has
        const std::unique_ptr<google::protobuf::Message> message(prototype->New());
        std::set<std::string> words, names;
        fill(*message, n, words, names);
        enums += static_cast<int>(words.size());
        std::multimap<std::string, std::string> fields;
        texts_of(to_json(*message), fields);
        std::set<std::string> shown;
        for (const auto& [key, text] : fields) shown.insert(text);
        for (const auto& name : names) EXPECT_FALSE(shown.contains(name)) << message->GetTypeName() << ' ' << name;
        for (const auto& word : words) EXPECT_TRUE(shown.contains(word)) << message->GetTypeName() << ' ' << word;
      }
    }
  }
  EXPECT_GT(enums, 100);
}

TEST(SameWords, AValueOfANewerServiceIsItsNumber) {
  pb::CancelResponse answer;
  answer.set_phase(static_cast<pb::WorkloadPhase>(77));
  EXPECT_EQ(to_json(answer)["phase"].string(), wire::word_of(answer.phase()));
}

// ---- columns ------------------------------------------------------------------------------------------------------

/// Columns whose value is derived from JSON fields: in another unit, summed, joined, or as an age.
using Derived = std::map<std::string, std::vector<std::string>>;

struct Case {
  std::vector<std::string> args;
  std::vector<std::vector<std::string>> tables;  ///< their columns
  Derived derived = {};
  std::string empty = "-";  ///< the text of an empty field
};

const std::vector<std::string> kWorkload = {"NAMESPACE", "NAME", "QUEUE",    "TEAM",    "PHASE", "POSITION",
                                            "PODS",      "GPUS", "PRIORITY", "ATTEMPT", "AGE",   "REASON"};
const std::vector<std::string> kClaim = {"CLAIM",     "STATE", "INSTANCE-TYPE", "CAPACITY-TYPE", "ZONE",
                                         "NODE-POOL", "GPUS",  "NODE",          "AGE",           "REASON"};

std::vector<Case> cases() {
  const Derived workload = {{"PODS", {"podSets"}}, {"GPUS", {"podSets"}}, {"AGE", {"submittedUs"}}};
  const Derived claim = {{"AGE", {"requestedUs", "launchedUs"}}};
  return {
      {{"list"}, {kWorkload}, workload},
      {{"get", "vision/finetune"}, {kWorkload}, workload},
      {{"describe", "nlp/pretrain"},
       {{"INDEX", "NODE", "DEVICES", "POD", "BOUND"}},
       {{"DEVICES", {"devices"}}, {"BOUND", {"boundUs"}}}},
      {{"what-if", "--delete", "ClusterQueue/spare"},
       {{"WORKLOAD", "QUEUE", "WHAT", "BEFORE", "AFTER", "WHY"}},
       {{"WORKLOAD", {"namespace", "name"}}}},
      {{"instances"},
       {{"INSTANCE-TYPE", "GPU", "GPU-COUNT", "GPU-MEMORY-GB", "GPU-MEMORY-EACH-GB", "VCPU", "MEMORY", "USD/HOUR"}},
       {{"MEMORY", {"memoryMib"}}, {"USD/HOUR", {"usdPerHour"}}}},
      {{"queues"},
       {{"NAME", "COHORT", "STATE", "PENDING", "ADMITTED", "RESOURCE", "USED", "NOMINAL", "BORROWED"}},
       {{"RESOURCE", {"nominal"}}, {"USED", {"used"}}, {"NOMINAL", {"nominal"}}, {"BORROWED", {"borrowed"}}}},
      {{"budget"},
       {{"NAME", "CLUSTER-QUEUE", "NAMESPACE", "TEAM", "UNIT", "SOFT", "TO", "GRANTED", "SPENT", "HELD", "FREE", "OWED",
         "PROJECTED"}},
       {{"UNIT", {"unit"}},
        {"TO", {"toUs"}},
        {"GRANTED", {"granted"}},
        {"SPENT", {"spent"}},
        {"HELD", {"held"}},
        {"FREE", {"free"}},
        {"OWED", {"owed"}},
        {"PROJECTED", {"projected"}}}},
      {{"classes"}, {{"NAME", "VALUE", "KIND", "GLOBAL-DEFAULT"}}},
      {{"nodes"},
       {{"NODE", "STATE", "INSTANCE-TYPE", "CAPACITY-TYPE", "ZONE", "GPU-MODEL", "GPUS", "USED", "UNHEALTHY", "PODS",
         "SINCE", "REASON"}},
       {{"USED", {"usedMilli"}}, {"UNHEALTHY", {"healthy"}}, {"SINCE", {"sinceUs"}}}},
      {{"layouts"},
       {{"NODE", "GPU-MODEL", "LABEL", "STATE", "ADVERTISED", "LAYOUT", "PHASE", "FROM", "REASON", "FINDING"}},
       {{"ADVERTISED", {"advertised"}}, {"FROM", {"fromUs"}}}},
      {{"cluster", "gap"},
       {{"AMOUNT", "GPUS", "SHARE", "GAP", "MEANING"}, {"GPU-MODEL", "GPUS", "NODES", "PRICE"}},
       {{"AMOUNT", {"capacityMilli", "requestedMilli", "allocatedMilli", "keepingMilli", "boundMilli"}},
        {"GPUS", {"capacityMilli", "gpus"}},
        {"SHARE", {"capacityMilli"}},
        {"GAP", {"allocatedMilli"}},
        {"MEANING", {"capacityMilli"}},
        {"PRICE", {"priceMilli"}}}},
      {{"defrag", "plan"},
       {{"NODES", "WORKLOAD", "FROM", "TO", "PODS", "GPU-HOURS", "USD"}},
       {{"NODES", {"nodes"}},
        {"WORKLOAD", {"namespace", "workload"}},
        {"PODS", {"pods"}},
        {"GPU-HOURS", {"gpuSeconds"}},
        {"USD", {"microUsd"}}}},
      {{"claims"}, {kClaim}, claim},
      {{"plan"}, {kClaim}, claim},
      {{"scale", "eval"},
       {{"SCALER", "RESULT", "RANGE", "METRIC", "RATIO", "PROPOSAL", "REASON"}},
       {{"SCALER", {"kind", "name"}},
        {"RESULT", {"wanted"}},
        {"RANGE", {"min", "max"}},
        {"METRIC", {"metrics"}},
        {"RATIO", {"ratio"}},
        {"PROPOSAL", {"replicas"}},
        {"REASON", {"rule", "reason", "error"}}}},
      {{"recommend", "sharing"},
       {{"DIMENSION", "MIG", "MPS", "TIME-SLICING"}},
       {{"DIMENSION", {"comparison"}}, {"MIG", {"mig"}}, {"MPS", {"mps"}}, {"TIME-SLICING", {"time_slicing"}}}},
      {{"top"},
       {{"NODE", "GPU-INDEX", "MODEL", "UTILIZATION", "SM-ACTIVE", "FB-USED", "FB-TOTAL", "TEMPERATURE", "POWER", "XID",
         "POD", "AGE"}},
       {{"UTILIZATION", {"utilization"}},
        {"SM-ACTIVE", {"smActive"}},
        {"FB-USED", {"fbUsedBytes"}},
        {"FB-TOTAL", {"fbUsedBytes", "fbFreeBytes"}},
        {"TEMPERATURE", {"temperatureC"}},
        {"POWER", {"powerWatts"}},
        {"POD", {"namespace", "pod"}},
        {"AGE", {"atUs"}}}},
      {{"report"},
       {{"TEAM", "GPU-HOURS", "USD"}},
       {{"TEAM", {"team", "totalNanoUsd", "providerNanoUsd"}}, {"GPU-HOURS", {"gpuMicros"}}, {"USD", {"nanoUsd"}}}},
      {{"prices"},
       {{"INSTANCE-TYPE", "CAPACITY-TYPE", "ZONE", "USD/HOUR", "FROM", "SOURCE"}},
       {{"USD/HOUR", {"nanoUsdHour"}}, {"FROM", {"fromUs"}}},
       "any"},
  };
}

/// Verbs without a table, and why their words cannot differ.
const std::set<std::size_t> kNoTable = {
    Verb(ApplyVerb{}).index(),       // names of objects
    Verb(SubmitVerb{}).index(),      // the name of the Job
    Verb(AdmitVerb{}).index(),       // findings, with the texts of the JSON
    Verb(WhyVerb{}).index(),         // codes and messages of the JSON
    Verb(WhenVerb{}).index(),        // instants
    Verb(CancelVerb{}).index(),      // a phase: Sentences below
    Verb(ActiveVerb{}).index(),      // a phase: Sentences below
    Verb(CheckVerb{}).index(),       // a phase: Sentences below
    Verb(EventsVerb{}).index(),      // the summary is one field
    Verb(ChaosVerb{}).index(),       // names and attempts
    Verb(PreflightVerb{}).index(),   // id and outcome as in the JSON
    Verb(NodeVerb{}).index(),        // the same
    Verb(QueueVerb{}).index(),       // a manifest
    Verb(PresetVerb{}).index(),      // manifests
    Verb(ImportVerb{}).index(),      // manifests
    Verb(PoolVerb{}).index(),        // texts and amounts of manifests
    Verb(LintVerb{}).index(),        // findings, with the texts of the JSON
    Verb(ScaleFilesVerb{}).index(),  // as scale eval
    Verb(CapacityVerb{}).index(),    // decisions and plans, with the texts and sums of the JSON
    Verb(HistoryVerb{}).index(),     // the same
};

/// "GPU-MODEL" -> "gpuModel".
std::string field_of(const std::string& column) {
  std::string out;
  bool upper = false;
  for (const char c : column) {
    if (c != '-') out += upper ? c : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    upper = c == '-';
  }
  return out;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out;
  for (std::size_t at = line.find_first_not_of(' '); at != std::string::npos;) {
    const auto end = line.find("  ", at);
    out.push_back(line.substr(at, end - at));
    at = end == std::string::npos ? end : line.find_first_not_of(' ', end);
  }
  return out;
}

bool is_heading(const std::vector<std::string>& cells) {
  return cells.size() > 1 && std::ranges::all_of(cells, [](const std::string& cell) {
           return cell.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ-/") == std::string::npos &&
                  std::isalpha(static_cast<unsigned char>(cell[0])) != 0;
         });
}

struct Shown {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< rows with a cell in every column
};

std::vector<Shown> tables_of(const std::string& text) {
  std::vector<Shown> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    auto cells = cells_of(line);
    if (is_heading(cells)) {
      out.push_back({std::move(cells), {}});
    } else if (!out.empty() && cells.size() == out.back().columns.size()) {
      out.back().rows.push_back(std::move(cells));
    }
  }
  return out;
}

/// One object for each value of each enum, including 0 and a number without a name.
template <class Enum, class Object, class Set>
void one_of_each(std::vector<Object>& objects, Set set) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Enum>();
  const Object like = objects.at(0);
  for (int i = 0; i <= type.value_count(); ++i) {
    objects.push_back(like);
    set(objects.back(), static_cast<Enum>(i < type.value_count() ? type.value(i)->number() : 77));
  }
}

void populate_all(FakeState& state) {
  populate(state);
  one_of_each<pb::WorkloadPhase>(state.workloads, [n = 0](auto& w, auto phase) mutable {
    w.mutable_state()->mutable_spec()->set_name("of-each-" + std::to_string(n++));
    w.mutable_state()->set_phase(phase);
  });
  one_of_each<pb::NodeState>(state.nodes, [](auto& n, auto value) { n.mutable_node()->set_state(value); });
  one_of_each<pb::InstanceState>(state.claims, [](auto& c, auto value) { c.set_state(value); });
  one_of_each<pb::BudgetUnit>(state.budgets, [](auto& b, auto value) { b.set_unit(value); });
}

class Tables : public ::testing::TestWithParam<Case> {};

TEST_P(Tables, ShowTheFieldsOfTheJson) {
  const auto& c = GetParam();
  FakeSuite suite;
  populate_all(suite.state);
  const auto text = qmctl(suite, c.args);
  ASSERT_EQ(text.code, kDone) << text.err;
  auto args = c.args;
  args.insert(args.end(), {"-o", "json"});
  const auto json = qmctl(suite, args);
  std::multimap<std::string, std::string> fields;
  const auto parsed = Json::parse(json.out);
  ASSERT_TRUE(parsed) << json.out;
  texts_of(*parsed, fields);

  const auto tables = tables_of(text.out);
  ASSERT_EQ(tables.size(), c.tables.size()) << text.out;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    EXPECT_EQ(tables[t].columns, c.tables[t]) << "a new column needs its field here";
    EXPECT_FALSE(tables[t].rows.empty()) << text.out;
    for (std::size_t i = 0; i < tables[t].columns.size(); ++i) {
      const auto& column = tables[t].columns[i];
      if (const auto derived = c.derived.find(column); derived != c.derived.end()) {
        for (const auto& field : derived->second) EXPECT_TRUE(fields.contains(field)) << column << " of " << field;
        continue;
      }
      const auto field = field_of(column);
      ASSERT_TRUE(fields.contains(field)) << column << ": the JSON has no field " << field;
      std::set<std::string> values, shown;
      for (auto [at, end] = fields.equal_range(field); at != end; ++at) values.insert(at->second);
      const bool all_empty = std::ranges::all_of(values, [](const auto& one) { return one.empty() || one == "0"; });
      for (const auto& row : tables[t].rows) {
        if (row[i] == "-" || row[i] == c.empty) continue;
        EXPECT_TRUE(values.contains(row[i])) << column << " shows " << row[i] << ", no value of " << field;
        shown.insert(row[i]);
      }
      EXPECT_EQ(shown.empty(), all_empty) << column << " shows no value of " << field;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Verbs, Tables, ::testing::ValuesIn(cases()), [](const auto& one) {
  std::string name = one.param.args[0] + (one.param.args.size() > 1 ? "_" + one.param.args[1] : "");
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
});

TEST(SameWords, EveryVerbIsJudged) {
  std::set<std::size_t> judged = kNoTable;
  for (const auto& c : cases()) {
    const auto options = parse_options(c.args);
    ASSERT_TRUE(options) << options.error().text;
    judged.insert(options->verb.index());
  }
  EXPECT_EQ(judged.size(), std::variant_size_v<Verb>) << "a new verb needs a row in cases() or in kNoTable";
}

// ---- texts that contain a value -------------------------------------------------------------------------------------

TEST(SameWords, DescribeShowsEachPhaseAndEachStateOfTheJson) {
  FakeSuite suite;
  populate(suite.state);
  const auto same = [&](const std::string& workload, const std::string& line, const std::string& path) {
    const auto json = Json::parse(qmctl(suite, {"describe", workload, "-o", "json"}).out);
    ASSERT_TRUE(json);
    const auto text = qmctl(suite, {"describe", workload}).out;
    EXPECT_NE(text.find(fmt::format("\n{:<10} {}", line, json->path(path).string())), std::string::npos) << text;
    EXPECT_NE(json->path(path).string(), "");
  };
  const auto& phases = *pb::WorkloadPhase_descriptor();
  for (int i = 0; i < phases.value_count(); ++i) {
    suite.state.workloads[0].mutable_state()->set_phase(static_cast<pb::WorkloadPhase>(phases.value(i)->number()));
    same("vision/finetune", "phase", "workload.state.phase");
  }
  const auto& states = *pb::AssignmentState_descriptor();
  for (int i = 0; i < states.value_count(); ++i) {
    suite.state.assignment.mutable_state()->set_state(static_cast<pb::AssignmentState>(states.value(i)->number()));
    same("nlp/pretrain", "placement", "assignment.state.state");
  }
}

TEST(SameWords, SentencesOfMutationsEndWithThePhaseOfTheJson) {
  FakeSuite suite;
  populate(suite.state);
  for (const auto& args : {std::vector<std::string>{"cancel", "vision/finetune"},
                           {"stop", "vision/finetune"},
                           {"resume", "vision/finetune"},
                           {"check", "answer", "vision/finetune", "--check", "c", "--state", "Ready"}}) {
    auto structured = args;
    structured.insert(structured.end(), {"-o", "json"});
    const auto phase = (*Json::parse(qmctl(suite, structured).out))["phase"].string();
    EXPECT_TRUE(wire::number_of(*pb::WorkloadPhase_descriptor(), phase)) << phase;
    const auto text = qmctl(suite, args).out;
    EXPECT_TRUE(text.ends_with(" " + phase + "\n")) << text << " for " << phase;
  }
}

TEST(SameWords, OptionsTakeTheWordsOfTheTables) {
  FakeSuite suite;
  populate(suite.state);
  const auto taken = [&](const EnumDescriptor& type, const std::string& verb, const std::string& flag) {
    for (const auto& word : wire::words_of(type))
      EXPECT_EQ(qmctl(suite, {verb, flag, word}).code, kDone) << verb << ' ' << word;
  };
  taken(*pb::WorkloadPhase_descriptor(), "list", "--phase");
  taken(*pb::InstanceState_descriptor(), "claims", "--state");
  taken(*pb::NodeState_descriptor(), "nodes", "--state");
}

}  // namespace same_words_test
}  // namespace qm::cli
