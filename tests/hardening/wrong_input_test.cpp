// The response of each shipped program to wrong input: each fact once, and each wrong setting with the allowed values.
#include "qm/http/http.hpp"
#include "shipped.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace qm::hardening {
namespace wrong_input_test {

/// Parts of the output between punctuation, long enough to be a statement and not a word or a name.
std::vector<std::string> statements(const std::string& output) {
  std::vector<std::string> out(1);
  for (std::size_t i = 0; i < output.size(); ++i) {
    const char c = output[i];
    const bool ends = c == '\n' || ((c == ':' || c == ';' || c == ',' || c == '.') && i + 1 < output.size() &&
                                    (output[i + 1] == ' ' || output[i + 1] == '\n'));
    if (ends || c == '(' || c == ')' || c == '"') {
      out.emplace_back();
    } else if (c != ' ' || !out.back().empty()) {
      out.back() += c;
    }
  }
  std::erase_if(out, [](const std::string& part) { return part.find(' ') == std::string::npos || part.size() < 12; });
  return out;
}

/// Words that are an address, or a name in capital letters as of an environment variable.
std::vector<std::string> names(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string word; in >> word;) {
    while (!word.empty() && std::string_view("();:,.?\"'").find(word.back()) != std::string_view::npos) word.pop_back();
    const auto colon = word.rfind(':');
    const bool address = colon != std::string::npos && colon > 3 && colon + 1 < word.size() &&
                         word.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    const bool variable = word.find('_') != std::string::npos &&
                          word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == std::string::npos;
    if (address || variable) out.push_back(word);
  }
  return out;
}

std::set<std::string> repeated(std::vector<std::string> all) {
  std::set<std::string> out;
  std::ranges::sort(all);
  for (auto at = std::ranges::adjacent_find(all); at != all.end(); at = std::adjacent_find(at + 1, all.end()))
    out.insert(*at);
  return out;
}

void expect_statements_once(const std::string& command, const Ran& ran) {
  EXPECT_NE(ran.output, "") << command;
  EXPECT_EQ(repeated(statements(ran.output)), std::set<std::string>()) << command << '\n' << ran.output;
  std::istringstream in(ran.output);
  for (std::string line; std::getline(in, line);)
    EXPECT_EQ(repeated(names(line)), std::set<std::string>()) << command << '\n' << ran.output;
}

/// Of a command that fails. Returns what it printed.
std::string expect_each_once(const std::string& command) {
  const auto ran = sh(command);
  EXPECT_NE(ran.code, 0) << command << '\n' << ran.output;
  expect_statements_once(command, ran);
  return ran.output;
}

/// Runs the command until its output has the text, and then ends it with SIGTERM.
std::string until(const std::string& text, const std::string& command) {
  return fmt::format(
      "(log=$(mktemp); {} >$log 2>&1 & pid=$!; for _ in $(seq 600); do grep -q '{}' $log && break; sleep 0.1; done; "
      "kill -TERM $pid; wait $pid; code=$?; cat $log; rm $log; exit $code)",
      command, text);
}

TEST(Statements, TheJudgeFindsRepetitions) {
  EXPECT_EQ(repeated(statements("no YAML: check the quotes near here; check the quotes near here")),
            std::set<std::string>{"check the quotes near here"});
  EXPECT_EQ(repeated(statements("a.yaml:4: no kind\nb.yaml:4: no kind")), std::set<std::string>());
  EXPECT_EQ(repeated(names("GET http://127.0.0.1:1: cannot connect to 127.0.0.1:1; 127.0.0.1:1")),
            std::set<std::string>{"127.0.0.1:1"});
  EXPECT_EQ(repeated(names("AWS_KEY is not set (field AWS_KEY)")), std::set<std::string>{"AWS_KEY"});
}

class WrongInput : public ::testing::Test {
 protected:
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    const auto path = dir_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  const testing::TempDir dir_;
  const std::string bad_yaml_ = file("bad.yaml", "a: [\n");
  const std::string job_ = file("job.yaml",
                                "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\nspec: {paralelism: 3, template: "
                                "{spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1x}}}]}}}\n");
  const std::string endpoints_ = file("endpoints.json", R"({"admission":"127.0.0.1:1","placement":"127.0.0.1:1",)"
                                                        R"("autoscaler":"127.0.0.1:1","telemetry":"127.0.0.1:1",)"
                                                        R"("cost":"127.0.0.1:1"})");
};

const std::vector<std::string> kServices = {"qm-admission", "qm-placement", "qm-autoscaler",
                                            "qm-telemetry", "qm-cost",      "qm-agent"};
const std::string kNowhere = " --grpc 127.0.0.1:0 --http 127.0.0.1:0 --kube http://127.0.0.1:1";

TEST_F(WrongInput, EachServiceReportsEachErrorOnce) {
  for (const auto& name : kServices) {
    for (const std::string& args :
         {std::string("--no-such"), std::string("--grpc nonsense"), std::string("--set nothing"),
          std::string("--peer nonsense"), std::string("--clock nonsense"), "--config " + dir_.path() + "/missing.yaml",
          kNowhere + " --set no-such=1", kNowhere + " --migrations maybe", kNowhere + " --tls-cert missing.pem"})
      expect_each_once(program(name) + " " + args);
  }
  for (const auto* name : {"qm-autoscaler", "qm-cost"})
    expect_each_once(program(name) + kNowhere + " --config " + bad_yaml_);
  expect_each_once("env -u AWS_ACCESS_KEY_ID AWS_EC2_METADATA_DISABLED=true " + program("qm-autoscaler") + kNowhere);
  expect_each_once(program("qm-admission") + " --grpc 127.0.0.1:0 --http 127.0.0.1:0");
}

TEST_F(WrongInput, QmctlReportsEachErrorOnce) {
  const std::string qmctl = program("qmctl") + " --endpoints " + endpoints_ + " --timeout 200ms ";
  for (const auto* args : {"list",
                           "get a/b",
                           "describe a/b",
                           "why a/b",
                           "when a/b",
                           "queues",
                           "budget",
                           "nodes",
                           "claims",
                           "plan",
                           "top",
                           "report",
                           "prices",
                           "events --follow",
                           "cancel a/b",
                           "stop a/b",
                           "layouts",
                           "cluster gap",
                           "no-such",
                           "list --phase x",
                           "nodes --no-such",
                           "get a",
                           "apply -f /nonexistent",
                           "report --period x",
                           "submit --name a --gpus many",
                           "preflight --kube http://127.0.0.1:1",
                           "node verify x --kube http://127.0.0.1:1"})
    expect_each_once(qmctl + args);
  for (const auto* args : {"apply -f", "submit -f", "admit -f", "what-if -f", "layouts -f", "recommend sharing --table",
                           "preflight --nccl", "preflight --operator-values"})
    expect_each_once(qmctl + args + " " + bad_yaml_);
  for (const auto* args : {"submit -f", "admit -f", "what-if -f"}) expect_each_once(qmctl + args + " " + job_);
  expect_each_once(qmctl + "admit -f " + job_ + " --set webhook-polcy=off");
  expect_each_once(program("qmctl") + " --endpoints " + bad_yaml_ + " list");
  expect_each_once(program("qmctl") + " --endpoints /nonexistent list");
}

// A service without its database waits for it. One line names the address, and SIGTERM ends the service.
TEST_F(WrongInput, AServiceWithoutPostgreSqlNamesTheAddressOnce) {
  for (const auto* name : {"qm-admission", "qm-placement", "qm-autoscaler", "qm-telemetry", "qm-cost"}) {
    const auto command =
        until("the database is not available", "env AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b " + program(name) +
                                                   kNowhere + " --postgres 'host=127.0.0.1 port=1 dbname=qm'");
    const auto ran = sh(command);
    EXPECT_EQ(ran.code, 0) << ran.output;
    expect_statements_once(command, ran);
    EXPECT_NE(ran.output.find("PostgreSQL cannot be reached"), std::string::npos) << ran.output;
    EXPECT_NE(ran.output.find("port 1 failed: Connection refused"), std::string::npos) << ran.output;
  }
}

TEST_F(WrongInput, AServerThatRefusesACallIsNamedOnceWithItsReason) {
  http::Server server({}, [](const http::Request& request) {
    return http::json(403, R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,)"
                           R"("message":"user \"probe\" cannot read )" +
                               std::string(request.path()) + R"("})");
  });
  ASSERT_TRUE(server.start());
  const auto address = fmt::format("127.0.0.1:{}", server.port());
  for (const auto* args : {"preflight", "node verify x"}) {
    const auto output = expect_each_once(fmt::format("{} {} --kube http://{}", program("qmctl"), args, address));
    EXPECT_NE(output.find("user \"probe\" cannot read"), std::string::npos) << output;
  }
  // It speaks no gRPC either.
  const auto endpoints = file("refuses.json", fmt::format(R"({{"admission":"{0}","placement":"{0}"}})", address));
  for (const auto* args : {"list", "nodes"}) {
    const auto output =
        expect_each_once(fmt::format("{} --endpoints {} --timeout 2s {}", program("qmctl"), endpoints, args));
    EXPECT_NE(output.find(address), std::string::npos) << output;
  }
  server.stop();
}

TEST_F(WrongInput, TheFleetReportsEachErrorOnce) {
  const std::string fleet = program("qm-fleet") + " --dir " + dir_.path() + "/fleet ";
  for (const std::string& args :
       {std::string("--no-such"), std::string("--shape zz"), std::string("--start zz"), std::string("--factor 1x"),
        std::string("--faults /nonexistent"), "--faults " + bad_yaml_, "--prices " + bad_yaml_})
    expect_each_once(fleet + args);
}

// ---- every --set of every program -----------------------------------------------------------------------------------

/// Settings that accept any text, or whose value is checked later: a name, a path, an address, an owner.
const std::map<std::string, std::set<std::string>> kFree = {
    {"qm-admission",
     {"binding", "quota", "kueue-configuration", "webhook-exclude", "webhook-own", "webhook-policy-file",
      "webhook-scheduler"}},
    {"qm-placement", {"binding", "isolate-workload-types", "mig-repartition", "quota", "topology"}},
    {"qm-autoscaler", {"cluster-name", "scaling", "service-cidr"}},
    {"qm-telemetry", {}},
    {"qm-cost", {}},
    {"qm-agent", {"telemetry", "device-plugin-config"}}};

/// The names that the program lists for an unknown one.
std::vector<std::string> settings_of(const std::string& name) {
  const auto output = sh(program(name) + kNowhere + " --set no-such=1").output;
  EXPECT_NE(output.find("--set no-such: unknown setting"), std::string::npos) << output;
  const std::string begin = "the settings are ";
  const auto at = output.find(begin);
  if (at == std::string::npos) return {};
  std::string list = output.substr(at + begin.size(), output.find('"', at) - at - begin.size());
  std::ranges::replace(list, ',', ' ');
  std::istringstream in(list);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST_F(WrongInput, EachSettingOfEachProgramNamesTheOptionTheValueAndWhatIsAllowed) {
  std::size_t judged = 0;
  for (const auto& [name, free] : kFree) {
    const auto known = settings_of(name);
    for (const auto& setting : free) EXPECT_TRUE(std::ranges::count(known, setting) == 1) << name << ' ' << setting;
    EXPECT_EQ(known.empty(), name == "qm-telemetry");
    const std::string node = name == "qm-agent" ? " --set nodes=n --set telemetry=127.0.0.1:1" : "";
    for (const auto& setting : known) {
      if (free.contains(setting)) continue;
      ++judged;
      const auto ran = sh("timeout 20 " + program(name) + kNowhere + node + " --set '" + setting + "=? !'");
      EXPECT_NE(ran.code, 0) << ran.output;
      EXPECT_NE(ran.output.find(fmt::format("--set {}: '? !' is not valid; use ", setting)), std::string::npos)
          << name << ' ' << setting << '\n'
          << ran.output;
    }
    // For a name with an extra letter the error names the intended one.
    if (known.empty()) continue;
    const auto& longest = *std::ranges::max_element(known, {}, &std::string::size);
    const auto misspelled = sh(program(name) + kNowhere + " --set " + longest + "x=1").output;
    EXPECT_NE(misspelled.find("did you mean " + longest + "?"), std::string::npos) << misspelled;
  }
  EXPECT_GT(judged, 50U);
}

}  // namespace wrong_input_test
}  // namespace qm::hardening
