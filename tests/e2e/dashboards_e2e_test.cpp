// The dashboards on the data of the main job: every panel's query returns rows, and their sums are the bill.
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"
#include "qm/pg/connection.hpp"
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace qm::e2e {
namespace dashboards_e2e_test {

namespace fs = std::filesystem;

const std::string kFolder = std::string(QM_SOURCE_DIR) + "/deploy/grafana/dashboards";

/// Grafana's expansion of a query: the time range, groups by time, and the selected values of the variables.
class Macros {
 public:
  Macros(Instant from, Instant until)
      : between_(fmt::format(" between '{}' and '{}'", to_rfc3339(from), to_rfc3339(until))) {}

  void choose(const std::string& variable, const std::set<std::string>& values) {
    std::string list;
    for (const auto& value : values) {
      if (!list.empty()) list += ',';
      list += '\'' + std::regex_replace(value, std::regex("'"), "''") + '\'';
    }
    choices_["${" + variable + ":sqlstring}"] = list;
  }

  [[nodiscard]] std::string expand(std::string sql) const {
    static const std::regex filter(R"(\$__timeFilter\(([^)]*)\))");
    static const std::regex group(R"(\$__timeGroupAlias\(([^,]*),\s*'1h'\))");
    sql = std::regex_replace(sql, filter, "$1" + between_);
    sql = std::regex_replace(sql, group, "date_trunc('hour', $1) as \"time\"");
    for (const auto& [name, list] : choices_) {
      for (auto at = sql.find(name); at != std::string::npos; at = sql.find(name)) sql.replace(at, name.size(), list);
    }
    return sql;
  }

 private:
  std::string between_;
  std::map<std::string, std::string> choices_;
};

std::map<std::string, Json> dashboards() {
  std::map<std::string, Json> out;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    out[entry.path().stem()] = Json::parse(testing::read_file(entry.path())).value_or(Json());
  }
  return out;
}

/// The main job at a small size, kept running; stopped at the end.
class Dashboards : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new testing::TempDir;
    const std::string file = dir_->path() + "/report.json";
    const auto ran = run({program("qm-demo"), "--hours", "2", "--nodes", "8", "--jobs", "80", "--speed", "120",
                          "--seed", "21", "--dir", dir_->path(), "--json", file, "--keep"},
                         std::chrono::seconds(400));
    ASSERT_EQ(ran.code, 0) << ran.output;
    report_ = new Json(Json::parse(testing::read_file(file)).value_or(Json()));
    endpoints_ = new Json(Json::parse(testing::read_file(dir_->path() + "/endpoints.json")).value_or(Json()));
  }
  static void TearDownTestSuite() {
    run({program("qm-demo"), "--down", "--dir", dir_->path()}, std::chrono::seconds(60));
    delete report_;
    delete endpoints_;
    delete dir_;
  }

  void SetUp() override {
    ASSERT_TRUE(endpoints_ != nullptr && (*endpoints_)["postgres"].is_string()) << "the main job did not run";
    // The role of the panels may read only the report views.
    auto owner = pg::Connection::open((*endpoints_)["postgres"].string(), {.application_name = "dashboards"});
    ASSERT_TRUE(owner) << owner.error().to_string();
    ASSERT_TRUE(
        (*owner)->exec("do $$ begin create role qm_report nologin; exception when duplicate_object then null; "
                       "end $$; grant usage on schema report to qm_report; "
                       "grant select on all tables in schema report to qm_report"));
    auto opened = pg::Connection::open((*endpoints_)["postgres"].string(), {.application_name = "dashboards"});
    ASSERT_TRUE(opened) << opened.error().to_string();
    reader_ = std::move(*opened);
    ASSERT_TRUE(reader_->exec("set role qm_report; set statement_timeout = '5s'; set time zone 'UTC'"));
    closed_ = from_micros((*report_)["closed"]["until_us"].integer());
    macros_ = std::make_unique<Macros>(from_micros(0), closed_ - std::chrono::microseconds(1));
    for (const auto& [name, board] : dashboards()) {
      for (const auto& variable : board["templating"]["list"].items()) {
        if (variable["type"].string() == "query") choose(variable["name"].string(), variable["query"].string());
      }
    }
  }

  void choose(const std::string& variable, const std::string& query) {
    const auto rows = reader_->exec(macros_->expand(query));
    ASSERT_TRUE(rows) << query << ": " << rows.error().to_string();
    std::set<std::string> values;
    for (std::size_t i = 0; i < rows->size(); ++i) values.insert(rows->str(i, 0));
    EXPECT_FALSE(values.empty()) << query;
    macros_->choose(variable, values);
  }

  /// Nano-dollars of `usd`, a numeric in text, summed by the server itself.
  std::map<std::string, std::string> nano_by(const std::string& column, const std::string& panel_sql) {
    const auto rows = reader_->exec("select " + column + "::text, trunc(sum(usd) * 1000000000)::text from (" +
                                    macros_->expand(panel_sql) + ") panel group by 1");
    EXPECT_TRUE(rows) << rows.error().to_string();
    std::map<std::string, std::string> out;
    for (std::size_t i = 0; rows && i < rows->size(); ++i) out[rows->str(i, 0)] = rows->str(i, 1);
    return out;
  }

  static std::string sql_of(const std::string& board, const std::string& title) {
    const auto boards = dashboards();
    for (const auto& panel : boards.at(board)["panels"].items()) {
      if (panel["title"].string() == title) return panel["targets"].items()[0]["rawSql"].string();
    }
    ADD_FAILURE() << board << " has no panel " << title;
    return {};
  }

  static inline testing::TempDir* dir_ = nullptr;
  static inline Json* report_ = nullptr;
  static inline Json* endpoints_ = nullptr;
  std::unique_ptr<pg::Connection> reader_;
  std::unique_ptr<Macros> macros_;
  Instant closed_{};
};

TEST_F(Dashboards, EveryQueryOfTheReportsAnswersWithRows) {
  int queries = 0;
  for (const auto& [name, board] : dashboards()) {
    for (const auto& panel : board["panels"].items()) {
      for (const auto& target : panel["targets"].items()) {
        if (!target["rawSql"].is_string()) continue;
        ++queries;
        const std::string sql = macros_->expand(target["rawSql"].string());
        const auto rows = reader_->exec(sql);
        ASSERT_TRUE(rows) << name << ", " << panel["title"].string() << ": " << rows.error().to_string() << "\n" << sql;
        EXPECT_GT(rows->size(), 0U) << name << ", " << panel["title"].string() << "\n" << sql;
        if (target["format"].string() != "time_series") continue;
        // Rows over time must be in time order.
        for (std::size_t i = 1; i < rows->size(); ++i) EXPECT_LE(rows->str(i - 1, 0), rows->str(i, 0)) << sql;
      }
    }
  }
  EXPECT_GT(queries, 12);
}

TEST_F(Dashboards, SumsAreTheBillToTheNanoDollar) {
  const Json& closed = (*report_)["closed"];
  ASSERT_GT(closed["total_nano_usd"].integer(), 0);
  EXPECT_EQ(closed["total_nano_usd"].integer(), closed["provider_nano_usd"].integer());
  std::map<std::string, std::string> stated;
  for (const auto& line : closed["chargeback"].items()) {
    if (line["nano_usd"].integer() != 0) stated[line["team"].string()] = std::to_string(line["nano_usd"].integer());
  }
  EXPECT_EQ(nano_by("team", sql_of("chargeback", "By team")), stated);
  for (const char* title : {"Total", "By namespace", "By product"}) {
    const auto sum = nano_by("'all'", sql_of("chargeback", title));
    EXPECT_EQ(sum.at("all"), std::to_string(closed["total_nano_usd"].integer())) << title;
  }
}

TEST_F(Dashboards, TheReaderSeesReportsAndNothingElse) {
  for (const char* table : {"cost.ledger", "admission.transitions", "cost.state", "placement.journal"}) {
    const auto rows = reader_->exec(std::string("select * from ") + table);
    ASSERT_FALSE(rows) << table;
    EXPECT_NE(rows.error().message.find("permission denied"), std::string::npos) << rows.error().message;
  }
  EXPECT_FALSE(reader_->exec("create table report.mine (a int)"));
}

// S-018: each query of a panel uses series that the services export.
TEST_F(Dashboards, EveryMetricIsServed) {
  std::string pages;
  for (const auto& service : Suite::services()) {
    http::Client client((*endpoints_)["http"][service].string());
    const auto page = client.send({.method = "GET", .target = "/metrics", .headers = {}, .body = {}});
    ASSERT_TRUE(page) << service << ": " << page.error().to_string();
    pages += page->body;
  }
  static const std::regex metric(R"(\b(?:qm|kueue|DCGM)_\w+)");
  int names = 0;
  for (const auto& [board, json] : dashboards()) {
    for (const auto& panel : json["panels"].items()) {
      for (const auto& target : panel["targets"].items()) {
        const std::string expr = target["expr"].string();
        for (std::sregex_iterator at(expr.begin(), expr.end(), metric), end; at != end; ++at, ++names) {
          EXPECT_NE(pages.find("\n" + at->str()), std::string::npos) << board << ": nothing serves " << at->str();
        }
      }
    }
  }
  EXPECT_GT(names, 15);
}

TEST(DashboardFiles, AreWhatTheCodeWrites) {
  const auto ran = run({"python3", "deploy/grafana/dashboards.py", "--check"}, std::chrono::seconds(60));
  EXPECT_EQ(ran.code, 0) << ran.output;
}

// S-018: each file is a dashboard by the schema that Grafana publishes.
TEST(DashboardFiles, AreOfGrafanasPublishedTypes) {
  if (std::getenv("QM_GRAFANA_SCHEMA") == nullptr) GTEST_SKIP() << "no Grafana schema: run ./qm peers grafana";
  std::vector<std::string> argv = {"tools/peers/grafana.sh", "check"};
  for (const auto& entry : fs::directory_iterator(kFolder)) argv.push_back(entry.path());
  const auto good = run(argv, std::chrono::seconds(300));
  EXPECT_EQ(good.code, 0) << good.output;

  const testing::TempDir dir;
  std::string text = testing::read_file(kFolder + "/gpu.json");
  text.replace(text.find("\"tags\""), 6, "\"tagz\"");
  const std::string bad = dir.path() + "/bad.json";
  std::ofstream(bad) << text;
  const auto refused = run({"tools/peers/grafana.sh", "check", bad}, std::chrono::seconds(300));
  EXPECT_NE(refused.code, 0) << "a key that no dashboard has was taken";
}

}  // namespace dashboards_e2e_test
}  // namespace qm::e2e
