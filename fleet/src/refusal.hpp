#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::fleet {

/// A refusal of the simulated service: an HTTP status and the service's own error code.
struct Refusal {
  int code = 500;
  std::string reason, message;  ///< "NotFound", "InvalidInstanceID.Malformed"; a sentence
  std::string field;            ///< of the first cause, for Kubernetes' 422
  Json details = {};            ///< of Kubernetes' Status: the object and all causes
};
template <class T>
using Answered = tl::expected<T, Refusal>;

/// `return refuse(400, "MissingParameter", "The request must contain the parameter {}", name);`
template <class... Args>
[[nodiscard]] tl::unexpected<Refusal> refuse(int code, std::string_view reason, fmt::format_string<Args...> text,
                                             Args&&... args) {
  return tl::unexpected(Refusal{code, std::string(reason), fmt::format(text, std::forward<Args>(args)...), {}, {}});
}

}  // namespace qm::fleet

/// As QM_TRY and QM_ASSIGN, for refusals.
#define FLEET_TRY(expr)                                                                                      \
  do {                                                                                                       \
    if (auto&& fleet_result = (expr); !fleet_result) return tl::unexpected(std::move(fleet_result).error()); \
  } while (false)
#define FLEET_ASSIGN(decl, expr)                                                                              \
  auto QM_CONCAT(fleet_assign_, __LINE__) = (expr);                                                           \
  if (!QM_CONCAT(fleet_assign_, __LINE__)) return tl::unexpected(QM_CONCAT(fleet_assign_, __LINE__).error()); \
  decl = std::move(*QM_CONCAT(fleet_assign_, __LINE__))
