#include "qm/kube/access_review.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <mutex>

namespace qm::kube {
namespace {

std::string full_resource(const AccessRequest& r) { return r.resource + (r.group.empty() ? "" : "." + r.group); }

Json review_of(const AccessRequest& r) {
  auto groups = Json::array();
  for (const auto& group : r.groups) groups.push_back(group);
  auto attributes = Json::object({{"namespace", r.ns}, {"verb", r.verb}, {"group", r.group}, {"resource", r.resource}});
  if (!r.name.empty()) attributes.set("name", r.name);
  return Json::object({{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SubjectAccessReview"},
                       {"spec", Json::object({{"user", r.user},
                                              {"groups", std::move(groups)},
                                              {"resourceAttributes", std::move(attributes)}})}});
}

Status decided(const AccessRequest& r, const Result<Json>& answer) {
  const auto unknown = [&](const std::string& why, std::string remedy) {
    return fail(Error{Code::kUnavailable,
                      fmt::format("the access review of {} for {} failed: {}", r.user, r.what(), why),
                      {},
                      std::move(remedy)});
  };
  if (!answer) {
    return unknown(answer.error().message,
                   answer.error().code == Code::kPermissionDenied
                       ? "allow the service to create subjectaccessreviews (system:auth-delegator)"
                       : "try again in a second");
  }
  const auto& status = (*answer)["status"];
  if (status["allowed"].boolean()) return {};
  const auto& failed = status["evaluationError"].string();
  if (!failed.empty() && !status["denied"].boolean()) return unknown(failed, "try again in a second");
  const auto& reason = status["reason"].string();
  return fail(Error{Code::kPermissionDenied,
                    fmt::format("{} may not {}{}{}", r.user, r.what(), reason.empty() ? "" : ": ", reason),
                    {},
                    fmt::format("bind a Role with verb {} on {}{} in namespace {} to {}", r.verb, full_resource(r),
                                r.name.empty() ? "" : fmt::format(" (resourceNames: [{}])", r.name), r.ns, r.user)});
}

/// Lengths before the parts, so that different requests have different keys.
std::string key_of(const AccessRequest& r) {
  std::string out;
  const auto add = [&](const std::string& part) { out += fmt::format("{}:{}", part.size(), part); };
  for (const auto* part : {&r.user, &r.verb, &r.group, &r.resource, &r.ns, &r.name}) add(*part);
  for (const auto& group : r.groups) add(group);
  return out;
}

}  // namespace

std::string AccessRequest::what() const {
  return fmt::format("{} {}{} in namespace {}", verb, full_resource(*this), name.empty() ? "" : "/" + name, ns);
}

struct AccessReviews::Impl {
  struct Entry {
    Status answer;
    SteadyInstant until;
  };
  Post post;
  Options options;
  std::mutex mutex;  // guards the members below
  std::map<std::string, Entry> answers;
  std::deque<std::string> order;  ///< in order of insertion, for the bound
};

AccessReviews::AccessReviews(Post post, Options options)
    : impl_(new Impl{std::move(post), std::move(options), {}, {}, {}}) {}
AccessReviews::~AccessReviews() = default;

Status AccessReviews::check(const AccessRequest& request) {
  const auto key = key_of(request);
  {
    const std::scoped_lock lock(impl_->mutex);
    const auto found = impl_->answers.find(key);
    if (found != impl_->answers.end() && found->second.until > impl_->options.now()) return found->second.answer;
  }
  const auto answer = decided(request, impl_->post(review_of(request)));
  const auto& o = impl_->options;
  const auto keep = answer ? o.keep : (answer.error().code == Code::kPermissionDenied ? o.keep_denied : o.keep_unknown);
  const std::scoped_lock lock(impl_->mutex);
  const auto [entry, fresh] = impl_->answers.insert_or_assign(key, Impl::Entry{answer, o.now() + keep});
  if (fresh) impl_->order.push_back(key);
  while (impl_->order.size() > o.most) {
    impl_->answers.erase(impl_->order.front());
    impl_->order.pop_front();
  }
  return answer;
}

}  // namespace qm::kube
