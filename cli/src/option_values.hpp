#pragma once
#include "options.hpp"
#include "qm/base/time.hpp"
#include "qm/model/money.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::cli {

/// Values of options. Each function ends the parse with a message about the option if the text is not valid.

[[noreturn]] void refuse(const std::string& what);
WorkloadName parse_name(const std::string& text);
Duration parse_time(const std::string& flag, const std::string& text);
std::int64_t parse_quantity(const std::string& flag, const std::string& text, bool milli);
/// An amount of dollars from 0.
Money parse_usd(const std::string& flag, const std::string& text);
/// The key=value texts of the given flag.
std::map<std::string, std::string> parse_pairs(const char* flag, const std::vector<std::string>& texts);
/// "2026-11", the name of a statement; returns the fault, as a check of CLI11 does.
std::string check_period(const std::string& text);

}  // namespace qm::cli
