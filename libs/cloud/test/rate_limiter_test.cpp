#include "src/rate_limiter.hpp"

#include <gtest/gtest.h>

#include <map>

namespace qm::cloud {
namespace rate_limiter_test {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

SteadyInstant at(double seconds) {
  return SteadyInstant(duration_cast<SteadyDuration>(std::chrono::duration<double>(seconds)));
}

// The rates of botocore 1.44's ClientRateLimiter for the same responses: 16 a second, throttled at three of them.
TEST(RateLimiter, RatesAreThoseOfBotocore) {
  const std::map<int, double> kExpected = {{8, 0.5},           {16, 0.5},           {39, 5.792871094},
                                           {40, 11.196416},    {41, 7.8374912},     {48, 9.573096454},
                                           {64, 11.112125819}, {89, 11.558584565},  {90, 8.091009196},
                                           {104, 10.90260826}, {128, 11.571782967}, {160, 16.558236032}};
  RateLimiter limiter(at(1000));
  for (int n = 1; n <= 160; ++n) {
    limiter.on_response(at(1000 + n / 16.0), n == 40 || n == 41 || n == 90);
    if (const auto expected = kExpected.find(n); expected != kExpected.end()) {
      EXPECT_NEAR(limiter.rate(), expected->second, 1e-6) << n;
    }
  }
}

TEST(RateLimiter, NeverWaitsBeforeTheFirstThrottle) {
  RateLimiter limiter(at(0));
  for (int n = 0; n < 1000; ++n) {
    EXPECT_EQ(limiter.take(at(0)).count(), 0);
    limiter.on_response(at(0), false);
  }
}

TEST(RateLimiter, CallersAfterAThrottleAreSpacedAndTheirWaitIsBounded) {
  RateLimiter limiter(at(0));
  limiter.on_response(at(10), true);
  EXPECT_DOUBLE_EQ(limiter.rate(), 0.5);
  EXPECT_EQ(limiter.take(at(10)).count(), 0) << "one token is there";
  EXPECT_EQ(duration_cast<milliseconds>(limiter.take(at(10))), milliseconds(2000));
  EXPECT_EQ(duration_cast<milliseconds>(limiter.take(at(10))), milliseconds(4000));
  EXPECT_EQ(limiter.take(at(10)), RateLimiter::kLongestWait);
  EXPECT_GT(limiter.take(at(12)).count(), 0);
  EXPECT_EQ(limiter.take(at(71)).count(), 0) << "a minute later";
}

}  // namespace rate_limiter_test
}  // namespace qm::cloud
