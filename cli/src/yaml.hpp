#pragma once
#include "qm/base/json.hpp"

#include <string>

namespace qm::cli {

/// A JSON value as one YAML document, block style, two spaces a level. Strings that YAML would read as another type
/// (numbers, true, null, dates, texts with ": " and so on) are quoted, so that parsing returns the same value.
std::string to_yaml(const Json& value);

}  // namespace qm::cli
