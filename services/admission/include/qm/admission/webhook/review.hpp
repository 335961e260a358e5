#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::admission::webhook {

/// An AdmissionReview from the API server (admission.k8s.io/v1), and the response to it.
///
/// Bounds   300,000 values, 10,000 members of one object, depth 64 (Json); more is refused before it is built or
///          searched. The server bounds the size of the body.
/// Fails    kInvalid, with the reason: not JSON, not a review, beyond the bounds, or an unsupported version of review.
/// Threads  any; a value.
class Review {
 public:
  static Result<Review> read(std::string_view body);
  /// Refers to this review.
  [[nodiscard]] admission_policy::Subject subject() const;
  [[nodiscard]] const std::string& uid() const { return uid_; }

 private:
  Json review_;
  std::string uid_;
};

/// The responses. A patch is RFC 6902 in base64, omitted if nothing changes. A refusal has each finding as a cause.
/// Findings of rules in warn mode become warnings, which clients show.
[[nodiscard]] std::string answer(const Review& review, const Json& mutated);
[[nodiscard]] std::string answer(const Review& review, const admission_policy::Verdict& verdict);

/// The patch from `before` to `after`: RFC 6902 add, remove and replace. Arrays of equal length are compared item
/// by item. Others are replaced as a whole, or appended to if they only grew.
[[nodiscard]] Json patch_of(const Json& before, const Json& after);

}  // namespace qm::admission::webhook
