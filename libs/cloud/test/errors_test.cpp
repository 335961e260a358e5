#include "qm/cloud/errors.hpp"

#include <gtest/gtest.h>

namespace qm::cloud {
namespace errors_test {

TEST(Errors, EachClassHasItsScopeAndItsRetry) {
  using enum ErrorClass;
  struct Case {
    const char* code;
    int status;
    ErrorKind want;
  };
  const Case cases[] = {
      {"InsufficientInstanceCapacity", 500, {kCapacity, ErrorScope::kOffering, false}},
      {"UnfulfillableCapacity", 0, {kCapacity, ErrorScope::kOffering, false}},
      {"Unsupported", 0, {kCapacity, ErrorScope::kOffering, false}},
      {"VcpuLimitExceeded", 400, {kCapacity, ErrorScope::kType, false}},
      {"InsufficientFreeAddressesInSubnet", 400, {kCapacity, ErrorScope::kZone, false}},
      {"MaxSpotInstanceCountExceeded", 400, {kCapacity, ErrorScope::kMarket, false}},
      {"MaxFleetCountExceeded", 400, {kCapacity, ErrorScope::kAccount, false}},
      {"RequestLimitExceeded", 503, {kRate, ErrorScope::kAccount, true}},
      {"Whatever", 429, {kRate, ErrorScope::kAccount, true}},
      {"InternalError", 500, {kTransient, ErrorScope::kCall, true}},
      {"Whatever", 502, {kTransient, ErrorScope::kCall, true}},
      {"UnauthorizedOperation", 403, {kPermission, ErrorScope::kAccount, false}},
      {"AccessDeniedForDependency", 403, {kPermission, ErrorScope::kAccount, false}},
      {"Whatever", 403, {kPermission, ErrorScope::kAccount, false}},
      {"InvalidParameterCombination", 400, {kParameter, ErrorScope::kCall, false}},
      {"InvalidUserData.Malformed", 400, {kParameter, ErrorScope::kCall, false}},
      {"MissingParameter", 400, {kParameter, ErrorScope::kCall, false}},
      {"InvalidAMIID.NotFound", 400, {kNotFound, ErrorScope::kCall, false}},
      {"InvalidLaunchTemplateName.NotFoundException", 400, {kNotFound, ErrorScope::kCall, false}},
      {"InvalidLaunchTemplateName.AlreadyExistsException", 400, {kConflict, ErrorScope::kCall, false}},
      {"InvalidGroup.Duplicate", 400, {kConflict, ErrorScope::kCall, false}},
      {"IdempotentParameterMismatch", 400, {kConflict, ErrorScope::kCall, false}},
      {"ScalingActivityInProgress", 400, {kConflict, ErrorScope::kCall, true}},
  };
  for (const Case& c : cases) EXPECT_EQ(classify(c.code, c.status), c.want) << c.code << " " << c.status;
}

TEST(Errors, AnUnknownCodeConcernsItsCallOnly) {
  EXPECT_EQ(classify("BrandNewCapacityProblem"), ErrorKind{});
  EXPECT_EQ(classify("BrandNewCapacityProblem", 400), ErrorKind{});
  EXPECT_EQ(classify(""), ErrorKind{});
}

TEST(Errors, TheCodeIsFoundBehindContext) {
  const auto code = [](std::string message) {
    return std::string(service_code(Error{Code::kInvalid, std::move(message), {}, {}}));
  };
  EXPECT_EQ(code("VcpuLimitExceeded: You have requested more: 8"), "VcpuLimitExceeded");
  EXPECT_EQ(code("failed after 5 attempts: RequestLimitExceeded: Request limit exceeded."), "RequestLimitExceeded");
  EXPECT_EQ(code("terminate i-1: InvalidInstanceID.NotFound: gone"), "InvalidInstanceID.NotFound");
  EXPECT_EQ(code("https://ec2.us-east-1.amazonaws.com: connection refused"), "");
  EXPECT_EQ(code("no colon"), "");
}

}  // namespace errors_test
}  // namespace qm::cloud
