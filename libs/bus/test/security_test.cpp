// Errors of the bus for denied operations and misspelled settings, without a broker; and the commands that grant a
// suite its rights.
#include "qm/bus/bus.hpp"
#include "qm/testing/testing.hpp"
#include "src/kafka_security.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

namespace qm::bus {
namespace security_test {

TEST(KafkaSecurity, ShortNamesTurnTlsOn) {
  KafkaSettings settings{{"tls_ca", "/ca"}, {"tls_cert", "/crt"}, {"tls_key", "/key"}};
  ASSERT_TRUE(expand_tls(settings));
  EXPECT_EQ(settings, (KafkaSettings{{"security.protocol", "ssl"},
                                     {"ssl.ca.location", "/ca"},
                                     {"ssl.certificate.location", "/crt"},
                                     {"ssl.key.location", "/key"}}));
  KafkaSettings login{{"tls_ca", "/ca"}, {"sasl.mechanisms", "PLAIN"}};
  ASSERT_TRUE(expand_tls(login));
  EXPECT_EQ(login["security.protocol"], "sasl_ssl");
  KafkaSettings none{{"bootstrap.servers", "x"}};
  ASSERT_TRUE(expand_tls(none));
  EXPECT_EQ(none.size(), 1U);
  KafkaSettings half{{"tls_cert", "/crt"}};
  EXPECT_EQ(expand_tls(half).error().code, Code::kInvalid);
}

TEST(KafkaSecurity, ADenialNamesPrincipalOperationAndRemedy) {
  const KafkaSettings settings{{"sasl.username", "qm"}};
  const Error denied{Code::kPermissionDenied, "the broker refuses", {}, {}};
  const auto write = explain_denial(denied, settings, {"qm.cost", {}, true});
  EXPECT_NE(write.message.find("User:qm may not write to topic qm.cost"), std::string::npos) << write.message;
  EXPECT_NE(write.remedy.find("--operation Write --operation Describe --topic qm.cost"), std::string::npos);
  const auto group = explain_denial(denied, settings, {{}, "cost/default"});
  EXPECT_NE(group.remedy.find("--group cost/default"), std::string::npos);
  const auto idempotent = explain_denial(denied, settings, {{}, {}, true});
  EXPECT_NE(idempotent.remedy.find("IdempotentWrite"), std::string::npos);
  const Error other{Code::kUnavailable, "away", {}, {}};
  EXPECT_EQ(explain_denial(other, settings, {"qm.cost", {}, true}).remedy, "");
  EXPECT_EQ(principal_of({}), "User:ANONYMOUS");
}

TEST(KafkaSecurity, AComplaintShowsNoPassword) {
  for (const auto* setting : {"host=db user=qm password=canary", "canary", "kafka:h:1?sasl.password=x&canary"}) {
    const auto bus = make_bus(setting);
    if (std::string(setting) == "canary") continue;  // a word without a password
    ASSERT_FALSE(bus) << setting;
    EXPECT_EQ(bus.error().to_string().find("canary"), std::string::npos) << bus.error().to_string();
  }
  const auto garbled = make_bus("postgres:host=db password='canary");
  ASSERT_FALSE(garbled);
  EXPECT_EQ(garbled.error().to_string().find("canary"), std::string::npos) << garbled.error().to_string();
  const auto uri = make_bus("postgres://user:canary@host:nonsense/x");
  ASSERT_FALSE(uri);
  EXPECT_EQ(uri.error().to_string().find("canary"), std::string::npos) << uri.error().to_string();
}

/// The rows of docs/api.md: who writes a topic, and who hears it.
std::set<std::string> rows_of_the_page() {
  std::set<std::string> out;
  std::istringstream page(qm::testing::read_file(std::string(QM_SOURCE_DIR) + "/docs/api.md"));
  std::string topic;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `qm.") && !line.starts_with("| | `")) continue;
    std::vector<std::string> cells;
    std::istringstream in(line.substr(1));
    for (std::string cell; std::getline(in, cell, '|');) {
      const auto from = cell.find_first_not_of(' ');
      cells.push_back(from == std::string::npos ? "" : cell.substr(from, cell.find_last_not_of(' ') - from + 1));
    }
    if (cells.size() < 6) continue;
    if (!cells[0].empty()) {
      topic = cells[0].substr(1, cells[0].find('`', 1) - 1);
      out.insert(cells[0].substr(cells[0].find(", ") + 2) + " writes " + topic);
    }
    std::istringstream received(cells[5]);
    for (std::string who; std::getline(received, who, ',');) {
      who.erase(0, who.find_first_not_of(' '));
      if (who.find(' ') == std::string::npos) out.insert(who + " reads " + topic);
    }
  }
  return out;
}

TEST(KafkaSecurity, TheListsGiveEachServiceItsTopicsAndNoOthers) {
  const std::string command = std::string(QM_SOURCE_DIR) + "/deploy/kafka/acls.sh User:";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  ASSERT_TRUE(pipe);
  std::set<std::string> given;
  char buffer[1024];
  while (std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
    const std::string line(buffer);
    const auto after = [&](const std::string& word) {
      const auto at = line.find(word);
      if (at == std::string::npos) return std::string();
      return line.substr(at + word.size(), line.find_first_of(" \n", at + word.size()) - at - word.size());
    };
    const auto topic = after("--topic ");
    if (topic.empty() || topic.ends_with(".dlq")) continue;
    const auto who = after("--allow-principal User:");
    // Telemetry reads all topics for FollowEvents; that is in the text of the page, not in its rows.
    if (line.find("--operation Write") != std::string::npos) given.insert(who + " writes " + topic);
    if (line.find("--operation Read") != std::string::npos && who != "telemetry") given.insert(who + " reads " + topic);
  }
  auto page = rows_of_the_page();
  ASSERT_GE(page.size(), 15U);
  std::erase_if(page, [](const std::string& row) { return row.starts_with("telemetry reads"); });
  EXPECT_EQ(given, page);
}

}  // namespace security_test
}  // namespace qm::bus
