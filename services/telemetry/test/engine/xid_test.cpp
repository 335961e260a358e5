#include "qm/telemetry/xid.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace qm::telemetry {
namespace xid_test {

TEST(Xid, IsFoundByItsCode) {
  ASSERT_NE(find_xid(79), nullptr);
  EXPECT_EQ(find_xid(79)->name, "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS");
  EXPECT_EQ(find_xid(79)->severity, Severity::kFatal);
  EXPECT_EQ(find_xid(79)->action, Action::kCordon);
  for (const std::int32_t unknown : {-1, 0, 1, 12, 174, 9999}) EXPECT_EQ(find_xid(unknown), nullptr) << unknown;
}

TEST(Xid, WhatIsFatalOrCriticalIsNeverLeftAside) {
  int known = 0;
  std::int32_t last = -1;
  for (std::int32_t code = 0; code < 1000; ++code) {
    const Xid* xid = find_xid(code);
    if (xid == nullptr) continue;
    ++known;
    EXPECT_EQ(xid->code, code);
    EXPECT_GT(xid->code, last) << "sorted";
    last = xid->code;
    if (xid->severity == Severity::kFatal) {
      EXPECT_EQ(xid->action, Action::kCordon) << code;
    }
    if (xid->severity == Severity::kCritical) {
      EXPECT_GE(xid->action, Action::kWatch) << code;
    }
    if (xid->severity == Severity::kInfo) {
      EXPECT_EQ(xid->action, Action::kNone) << code;
    }
  }
  EXPECT_EQ(known, 112);
}

void expect_catalogue(const std::string& table) {
  SCOPED_TRACE(table);
  const std::map<std::string, Severity> severities = {{"info", Severity::kInfo},
                                                      {"warning", Severity::kWarning},
                                                      {"critical", Severity::kCritical},
                                                      {"fatal", Severity::kFatal}};
  // What the reference advises, as the one thing that it means here.
  const std::map<std::string, Action> actions = {{"ignore", Action::kNone},
                                                 {"restart_app", Action::kWatch},
                                                 {"update_software", Action::kWatch},
                                                 {"reset_gpu", Action::kResetGpu},
                                                 {"decode_nvlink4", Action::kResetGpu},
                                                 {"decode_nvlink5", Action::kResetGpu},
                                                 {"reboot_node", Action::kCordon},
                                                 {"inspect_hardware", Action::kCordon},
                                                 {"follow_recovery_action", Action::kCordon},
                                                 {"contact_support", Action::kWatch}};
  std::istringstream rows(qm::testing::read_file(table));
  std::string line;
  std::getline(rows, line);
  ASSERT_EQ(line, "code,name,severity,action,source");
  int listed = 0;
  while (std::getline(rows, line)) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    ASSERT_GE(cells.size(), 4U) << line;
    const Xid* xid = find_xid(std::stoi(cells[0]));
    if (cells[2] == "unexpected") {
      EXPECT_EQ(xid, nullptr) << line;
      continue;
    }
    ++listed;
    ASSERT_NE(xid, nullptr) << line;
    EXPECT_TRUE(cells[1].starts_with(xid->name)) << line << ": ours is " << xid->name;  // some have two
    EXPECT_EQ(xid->severity, severities.at(cells[2])) << line;
    EXPECT_EQ(xid->action, actions.at(cells[3])) << line;
  }
  EXPECT_EQ(listed, 112);
}

TEST(Xid, CatalogueEqualsTheReferenceTable) {
  for (const auto& folder : qm::testing::data_folders("tables")) expect_catalogue(folder + "/xid.csv");
}

}  // namespace xid_test
}  // namespace qm::telemetry
