#include "qm/catalog/xid.hpp"

#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

namespace qm::catalog::xid {
namespace xid_test {

TEST(Xid, IsFoundByItsCode) {
  ASSERT_NE(find(79), nullptr);
  EXPECT_EQ(find(79)->name, "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS");
  EXPECT_EQ(find(79)->severity, Severity::kFatal);
  EXPECT_EQ(find(79)->action, Action::kCordon);
  for (const std::int32_t unknown : {-1, 0, 1, 12, 174, 9999}) EXPECT_EQ(find(unknown), nullptr) << unknown;
}

TEST(Xid, WhatIsFatalOrCriticalIsNeverLeftAside) {
  int known = 0;
  std::int32_t last = -1;
  for (std::int32_t code = 0; code < 1000; ++code) {
    const Xid* entry = find(code);
    if (entry == nullptr) continue;
    ++known;
    EXPECT_EQ(entry->code, code);
    EXPECT_GT(entry->code, last) << "sorted";
    last = entry->code;
    if (entry->severity == Severity::kFatal) {
      EXPECT_EQ(entry->action, Action::kCordon) << code;
    }
    if (entry->severity == Severity::kCritical) {
      EXPECT_GE(entry->action, Action::kWatch) << code;
    }
    if (entry->severity == Severity::kInfo) {
      EXPECT_EQ(entry->action, Action::kNone) << code;
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
  // The action for each advice of the reference.
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
    const Xid* entry = find(std::stoi(cells[0]));
    if (cells[2] == "unexpected") {
      EXPECT_EQ(entry, nullptr) << line;
      continue;
    }
    ++listed;
    ASSERT_NE(entry, nullptr) << line;
    EXPECT_TRUE(cells[1].starts_with(entry->name)) << line << ": ours is " << entry->name;  // some have two names
    EXPECT_EQ(entry->severity, severities.at(cells[2])) << line;
    EXPECT_EQ(entry->action, actions.at(cells[3])) << line;
  }
  EXPECT_EQ(listed, 112);
}

TEST(Xid, CatalogueEqualsTheReferenceTable) {
  for (const auto& folder : qm::testing::data_folders("tables")) expect_catalogue(folder + "/xid.csv");
}

TEST(Xid, DetailsDecideWhereTheCodeDoesNot) {
  const auto of = [](std::int32_t code, const std::string& line) { return action_for(code, details_in(code, line)); };
  const std::string at = "NVRM: Xid (PCI:0000:04:00): ";
  struct Row {
    std::int32_t code;
    std::string rest;
    Action want;
  };
  const std::string changed = "154, GPU recovery action changed from ";
  const std::vector<Row> rows = {
      {154, changed + "0x1 (GPU Reset Required) to 0x0 (None)", Action::kNone},
      {154, changed + "0x0 (None) to 0x1 (GPU Reset Required)", Action::kResetGpu},
      {154, changed + "0x0 (None) to 0x2 (Node Reboot Required)", Action::kCordon},
      {154, changed + "0x0 (None) to 0x3 (Drain P2P)", Action::kResetGpu},
      {154, changed + "0x0 (None) to 0x4 (Drain and Reset)", Action::kResetGpu},
      {154, changed + "0x0 (None) to 0x5 (Recover IMEX Domain)", Action::kCordon},
      {154, changed + "0x0 (None) to 0x6 (Bus Reset)", Action::kResetGpu},
      {154, changed + "0x0 (None) to 0x7 (System Reboot)", Action::kCordon},
      {154, changed + "0x0 (None) to 0x2a (Something New)", Action::kCordon},
      {154, changed + "None to GPU Reset Required", Action::kCordon},  // no number: not known
      {154, "154", Action::kCordon},
      {144, "144, SAW_MVB Nonfatal XC0 i0 Link 00 (0x00000003 0x80000000)", Action::kWatch},
      {145, "145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003 0x80000000)", Action::kWatch},
      {146, "146, TLW_RX Non-fatal XC1 i2 Link 17 (0xdeadbeef)", Action::kWatch},
      {147, "147, TREX Nonfatal XC0 i0 Link 01 (0x1)", Action::kWatch},
      {148, "148, NVLPW_CTRL Nonfatal XC0 i0 Link 01 (0x1)", Action::kWatch},
      {149, "149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 03 (0x00086226)", Action::kWatch},
      {150, "150, MSE_WATCHDOG Nonfatal XC0 i0 Link 03 (0x1)", Action::kWatch},
      {149, "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6)", Action::kResetGpu},
      {145, "145", Action::kResetGpu},  // not known to be nonfatal
      // Details in the line of another code have no effect.
      {48, "48, Nonfatal , GPU recovery action changed from 0x1 (x) to 0x0 (None)", Action::kResetGpu},
      {9999, "9999, Fatal XC0", Action::kWatch},
  };
  for (const auto& row : rows) EXPECT_EQ(of(row.code, at + row.rest), row.want) << row.rest;
}

TEST(Xid, TheDriversRecoveryActionDecidesWithoutALine) {
  EXPECT_EQ(action_for(154, {{}, 0}), Action::kNone);
  EXPECT_EQ(action_for(154, {{}, 1}), Action::kResetGpu);
  EXPECT_EQ(action_for(154, {{}, -1}), Action::kCordon) << "a value that is not known counts as the heaviest";
  EXPECT_EQ(action_for(154, {{}, 8}), Action::kCordon);
  EXPECT_EQ(action_for(145, {{}, 0}), Action::kWatch);
  EXPECT_EQ(action_for(145, {{}, 4}), Action::kResetGpu);
  EXPECT_EQ(action_for(145, {false, 2}), Action::kCordon) << "the heavier of the two";
  EXPECT_EQ(action_for(145, {true, 0}), Action::kResetGpu);
  EXPECT_EQ(action_for(79, {{}, 0}), Action::kCordon) << "the code decides";
  EXPECT_EQ(action_for(13, {{}, 2}), Action::kWatch);
}

TEST(Xid, WhatNeedsAResetBreaksTheGpu) {
  for (const std::int32_t code : {48, 64, 79, 95, 109, 119, 136, 155, 158}) EXPECT_TRUE(breaks_gpu(code, {})) << code;
  for (const std::int32_t code : {0, 13, 31, 43, 45, 63, 94, 9999}) EXPECT_FALSE(breaks_gpu(code, {})) << code;
}

}  // namespace xid_test
}  // namespace qm::catalog::xid
