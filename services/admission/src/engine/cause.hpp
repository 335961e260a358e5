#pragma once
#include "qm/admission/engine.hpp"

#include <string>
#include <utility>

namespace qm::admission {

/// A cause that names no amount of a resource.
inline Cause cause_of(std::string code, std::string message, std::string remedy = {}) {
  return {.code = std::move(code), .message = std::move(message), .resource = {}, .remedy = std::move(remedy)};
}

}  // namespace qm::admission
