#pragma once
#include <gtest/gtest.h>

#include <string>

namespace qm::testing {

/// A golden file holds what a program must say; it is read by people whenever it changes.
///
/// With QM_UPDATE_GOLDEN=1 in the environment a test writes its golden file instead of comparing, and passes: the
/// change then shows in the diff of the commit.
[[nodiscard]] bool updating_golden();
/// Writes a golden file, making its folder.
void write_golden(const std::string& path, const std::string& text);
/// Success where the file holds exactly this text. Failure names the first line that differs and how to update.
[[nodiscard]] ::testing::AssertionResult matches_golden(const std::string& path, const std::string& text);

}  // namespace qm::testing
