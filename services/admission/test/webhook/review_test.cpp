#include "qm/admission/webhook/review.hpp"

#include "qm/base/base64.hpp"
#include "reviews.hpp"

#include <gtest/gtest.h>

namespace qm::admission::webhook {
namespace review_test {

/// Applies a patch as the API server would.
Json patched(Json object, const Json& patch) {
  for (const auto& op : patch.items()) {
    std::vector<std::string> parts;
    std::string part;
    for (const char c : op["path"].string().substr(1) + "/") {
      if (c != '/') {
        part += c;
        continue;
      }
      for (auto at = part.find("~1"); at != std::string::npos; at = part.find("~1")) part.replace(at, 2, "/");
      for (auto at = part.find("~0"); at != std::string::npos; at = part.find("~0", at + 1)) part.replace(at, 2, "~");
      parts.push_back(std::exchange(part, {}));
    }
    Json* at = &object;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      at = at->is_array() ? &at->items_mut().at(std::stoul(parts[i])) : at->find(parts[i]);
      if (at == nullptr) return Json("the path does not exist: " + op["path"].string());
    }
    if (op["op"].string() == "remove") {
      at->erase(parts.back());
    } else if (at->is_array()) {
      if (parts.back() == "-") {
        at->push_back(op["value"]);
      } else {
        at->items_mut().at(std::stoul(parts.back())) = op["value"];
      }
    } else {
      at->set(parts.back(), op["value"]);
    }
  }
  return object;
}

TEST(JsonPatch, TransformsSourceToTarget) {
  const char* const cases[][2] = {
      {R"({"a":1})", R"({"a":1})"},
      {R"({"a":1})", R"({"a":2,"b":{"c":[1]}})"},
      {R"({"a":{"x/y":1,"m~n":2}})", R"({"a":{"x/y":3}})"},
      {R"({"l":[{"n":1},{"n":2}]})", R"({"l":[{"n":1},{"n":5,"m":0},{"n":3}]})"},
      {R"({"l":[1,2,3]})", R"({"l":[1]})"},
      {R"({"l":[]})", R"({"l":[1]})"},
      {R"({"l":null})", R"({"l":{"a":1}})"},
  };
  for (const auto& [from, to] : cases) {
    const auto patch = patch_of(parsed(from), parsed(to));
    EXPECT_EQ(patched(parsed(from), patch).dump(), parsed(to).dump()) << from << " by " << patch.dump();
  }
  EXPECT_EQ(patch_of(parsed(R"({"a":1})"), parsed(R"({"a":1})")).size(), 0U);
}

const Json kPod = parsed(R"({"metadata":{"name":"one"},"spec":{"containers":[{"name":"m"}]}})");

TEST(Review, ParsesAllFields) {
  const auto review = Review::read(review_of(kPod, "Pod", "UPDATE", kPod, "bob"));
  ASSERT_TRUE(review);
  const auto s = review->subject();
  EXPECT_EQ(s.operation, Operation::kUpdate);
  EXPECT_EQ(s.kind + "," + s.ns + "," + s.name + "," + s.user, "Pod,team,one,bob");
  EXPECT_NE(s.old, nullptr);
  EXPECT_EQ(Review::read(review_of(kPod, "Pod", "DELETE"))->subject().operation, Operation::kOther);
}

TEST(Review, RefusesOtherVersionsWithRemedy) {
  const auto old =
      Review::read(R"({"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}})");
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().message, "an AdmissionReview of admission.k8s.io/v1beta1 is not accepted");
  EXPECT_EQ(old.error().remedy, "register with admissionReviewVersions: [v1]; admission.k8s.io/v1 is accepted");
  EXPECT_FALSE(Review::read("{"));
  EXPECT_FALSE(Review::read(R"({"kind":"Pod"})"));
  EXPECT_EQ(Review::read(R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"})").error().field,
            "request.uid");
}

TEST(Review, ResponseHasUidAndPatch) {
  const auto review = *Review::read(review_of(kPod, "Pod"));
  auto changed = kPod;
  changed.set("spec").set("schedulerName", "quartermaster");
  const auto reported = parsed(answer(review, changed));
  EXPECT_EQ(reported["apiVersion"].string(), "admission.k8s.io/v1");
  EXPECT_EQ(reported["response"]["uid"].string(), "705ab4f5-6393-11e8-b7cc-42010a800002");
  EXPECT_TRUE(reported["response"]["allowed"].boolean());
  EXPECT_EQ(reported["response"]["patchType"].string(), "JSONPatch");
  EXPECT_EQ(*from_base64(reported["response"]["patch"].string()),
            R"([{"op":"add","path":"/spec/schedulerName","value":"quartermaster"}])");
  EXPECT_FALSE(parsed(answer(review, kPod))["response"].contains("patch")) << "no change, no patch";
}

TEST(Review, RefusalNamesEveryCauseAndRemedy) {
  const auto review = *Review::read(review_of(kPod, "Pod"));
  const auto reported = parsed(answer(review, Verdict{{{"gpu-node", "no node", "spec.nodeSelector", "add one"},
                                                       {"required-labels", "no team", "metadata.labels", "set team"}},
                                                      {{"gpu-share", "no cpu", "spec", "ask for some"}}}))["response"];
  EXPECT_FALSE(reported["allowed"].boolean(true));
  EXPECT_EQ(reported["status"]["code"].integer(), 422);
  EXPECT_EQ(reported["status"]["message"].string(), "no node (gpu-node): add one; no team (required-labels): set team");
  EXPECT_EQ(reported["status"]["details"]["causes"].size(), 2U);
  EXPECT_EQ(reported["warnings"].dump(), R"(["no cpu (gpu-share): ask for some"])");
  const auto held = parsed(answer(review, Verdict{{{"held", "held", "spec.suspend", "wait"}}, {}}))["response"];
  EXPECT_EQ(held["status"]["code"].integer(), 403);
  EXPECT_EQ(held["status"]["reason"].string(), "Forbidden");
}

TEST(Review, DecisionsUnderComplianceAreAudited) {  // S-378
  const auto review = *Review::read(review_of(kPod, "Pod"));
  Verdict verdict;
  EXPECT_FALSE(parsed(answer(review, verdict))["response"].contains("auditAnnotations"));
  verdict.audit = {{"compliance", "pci-dss"}, {"decision", "allowed"}};
  EXPECT_EQ(parsed(answer(review, verdict))["response"]["auditAnnotations"].dump(),
            R"({"compliance":"pci-dss","decision":"allowed"})");
}

}  // namespace review_test
}  // namespace qm::admission::webhook
