#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace qm::testing {

/// Runs a text table: a command a line, and under it one "=> ..." line for each expected line of output. Empty lines
/// and lines that begin with "--" are skipped.
///
/// `execute` gets each command line and returns its output. An exception of it passes through.
/// Returns an empty text if all output is as written; otherwise the table with every difference marked.
[[nodiscard]] std::string run_table(const std::string& text,
                                    const std::function<std::vector<std::string>(const std::string& line)>& execute);

/// Expects that all orders of the facts, one a line, end in the same state. `end_of` applies the lines to a new engine
/// and returns the digest of its state.
/// Returns the number of orders.
int expect_one_end(std::vector<std::string> facts,
                   const std::function<std::uint64_t(const std::string& lines)>& end_of);

}  // namespace qm::testing
