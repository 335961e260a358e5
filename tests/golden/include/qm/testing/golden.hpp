#pragma once
#include <gtest/gtest.h>

#include <string>

namespace qm::testing {

/// A golden file contains the expected output of a program; each change of it is reviewed.
///
/// With QM_UPDATE_GOLDEN=1 in the environment a test writes its golden file instead of comparing, and passes: the
/// change is then visible in the diff of the commit.
[[nodiscard]] bool updating_golden();
/// Writes a golden file and creates its folder.
void write_golden(const std::string& path, const std::string& text);
/// Success if the file contains exactly this text. Failure names the first different line and how to update.
[[nodiscard]] ::testing::AssertionResult matches_golden(const std::string& path, const std::string& text);

}  // namespace qm::testing
