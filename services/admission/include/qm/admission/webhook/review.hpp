#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"

#include <string>
#include <string_view>

namespace qm::admission::webhook {

/// An AdmissionReview as the API server sends it (admission.k8s.io/v1), and the answer to it.
///
/// Bounds   300,000 values, 10,000 members of one object, depth 64 (Json); what is beyond is refused before it is built,
///          or before it is searched. The body's size is the server's to bound.
/// Fails    kInvalid: not JSON, no review, more than is taken, or a review of a version that is not ours; says which is.
/// Threads  any, as a value.
class Review {
 public:
  static Result<Review> read(std::string_view body);
  /// Points into this review.
  [[nodiscard]] Subject subject() const;
  [[nodiscard]] const std::string& uid() const { return uid_; }

 private:
  Json review_;
  std::string uid_;
};

/// The answers. A patch is RFC 6902 in base64, left out where nothing changes; a refusal carries every finding as a
/// cause; findings of rules that only warn become warnings, which clients show.
[[nodiscard]] std::string answer(const Review& review, const Json& mutated);
[[nodiscard]] std::string answer(const Review& review, const Verdict& verdict);

/// What makes `after` of `before`: RFC 6902 add, remove and replace. Arrays of one length are compared item by item;
/// others are replaced as a whole, or added to at their end where they only grew.
[[nodiscard]] Json patch_of(const Json& before, const Json& after);

[[nodiscard]] std::string base64(std::string_view bytes);
[[nodiscard]] Result<std::string> from_base64(std::string_view text);

}  // namespace qm::admission::webhook
