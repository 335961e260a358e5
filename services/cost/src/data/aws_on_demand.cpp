#include "qm/base/assert.hpp"
#include "qm/cost/prices.hpp"

#include <string_view>

namespace qm::cost {
namespace {

struct OnDemand {
  std::string_view type, usd;
};

// Facts as published for us-east-1, Linux, shared tenancy, on 2026-07-20.
constexpr OnDemand kAwsUsEast1[] = {
    {"c5.large", "0.085"},
    {"c5.xlarge", "0.17"},
    {"c5.2xlarge", "0.34"},
    {"c5.4xlarge", "0.68"},
    {"c5.9xlarge", "1.53"},
    {"c5.18xlarge", "3.06"},
    {"c5.24xlarge", "4.08"},
    {"c6i.4xlarge", "0.68"},
    {"c7g.4xlarge", "0.58"},
    {"dl1.24xlarge", "13.10904"},
    {"g4ad.xlarge", "0.37853"},
    {"g4ad.2xlarge", "0.54117"},
    {"g4ad.4xlarge", "0.867"},
    {"g4ad.8xlarge", "1.734"},
    {"g4ad.16xlarge", "3.468"},
    {"g4dn.xlarge", "0.526"},
    {"g4dn.2xlarge", "0.752"},
    {"g4dn.4xlarge", "1.204"},
    {"g4dn.8xlarge", "2.176"},
    {"g4dn.12xlarge", "3.912"},
    {"g4dn.16xlarge", "4.352"},
    {"g4dn.metal", "7.824"},
    {"g5.xlarge", "1.006"},
    {"g5.2xlarge", "1.212"},
    {"g5.4xlarge", "1.624"},
    {"g5.8xlarge", "2.448"},
    {"g5.12xlarge", "5.672"},
    {"g5.16xlarge", "4.096"},
    {"g5.24xlarge", "8.144"},
    {"g5.48xlarge", "16.288"},
    {"g5g.xlarge", "0.42"},
    {"g5g.2xlarge", "0.556"},
    {"g5g.4xlarge", "0.828"},
    {"g5g.8xlarge", "1.372"},
    {"g5g.16xlarge", "2.744"},
    {"g5g.metal", "2.744"},
    {"g6.xlarge", "0.8048"},
    {"g6.2xlarge", "0.9776"},
    {"g6.4xlarge", "1.3232"},
    {"g6.8xlarge", "2.0144"},
    {"g6.12xlarge", "4.6016"},
    {"g6.16xlarge", "3.3968"},
    {"g6.24xlarge", "6.6752"},
    {"g6.48xlarge", "13.3504"},
    {"g6e.xlarge", "1.861"},
    {"g6e.2xlarge", "2.24208"},
    {"g6e.4xlarge", "3.00424"},
    {"g6e.8xlarge", "4.52856"},
    {"g6e.12xlarge", "10.49264"},
    {"g6e.16xlarge", "7.57719"},
    {"g6e.24xlarge", "15.06559"},
    {"g6e.48xlarge", "30.13118"},
    {"g6f.large", "0.202"},
    {"g6f.xlarge", "0.2375"},
    {"g6f.2xlarge", "0.475"},
    {"g6f.4xlarge", "0.95"},
    {"g7.2xlarge", "2.52"},
    {"g7.4xlarge", "3.04208"},
    {"g7.8xlarge", "4.08624"},
    {"g7.12xlarge", "7.12832"},
    {"g7.24xlarge", "14.25664"},
    {"g7.48xlarge", "28.51328"},
    {"g7e.2xlarge", "3.36312"},
    {"g7e.4xlarge", "3.99816"},
    {"g7e.8xlarge", "5.26824"},
    {"g7e.12xlarge", "8.28608"},
    {"g7e.24xlarge", "16.57216"},
    {"g7e.48xlarge", "33.14432"},
    {"gr6.4xlarge", "1.5392"},
    {"gr6.8xlarge", "2.4464"},
    {"gr6f.4xlarge", "1.066"},
    {"inf1.xlarge", "0.228"},
    {"inf1.2xlarge", "0.362"},
    {"inf1.6xlarge", "1.18"},
    {"inf1.24xlarge", "4.721"},
    {"inf2.xlarge", "0.7582"},
    {"inf2.8xlarge", "1.96786"},
    {"inf2.24xlarge", "6.49063"},
    {"inf2.48xlarge", "12.98127"},
    {"m5.large", "0.096"},
    {"m5.xlarge", "0.192"},
    {"m5.2xlarge", "0.384"},
    {"m5.4xlarge", "0.768"},
    {"m5.8xlarge", "1.536"},
    {"m5.12xlarge", "2.304"},
    {"m5.24xlarge", "4.608"},
    {"m6i.xlarge", "0.192"},
    {"m6i.4xlarge", "0.768"},
    {"m6i.16xlarge", "3.072"},
    {"m7g.4xlarge", "0.6528"},
    {"m7i.4xlarge", "0.8064"},
    {"p3.2xlarge", "3.06"},
    {"p3.8xlarge", "12.24"},
    {"p3.16xlarge", "24.48"},
    {"p3dn.24xlarge", "31.212"},
    {"p4d.24xlarge", "21.957642"},
    {"p4de.24xlarge", "27.44705"},
    {"p5.4xlarge", "6.88"},
    {"p5.48xlarge", "55.04"},
    {"p5en.48xlarge", "63.296"},
    {"p6-b200.48xlarge", "113.9328"},
    {"p6-b300.48xlarge", "142.416"},
    {"r5.large", "0.126"},
    {"r5.xlarge", "0.252"},
    {"r5.2xlarge", "0.504"},
    {"r5.4xlarge", "1.008"},
    {"r5.8xlarge", "2.016"},
    {"r5.12xlarge", "3.024"},
    {"r5.24xlarge", "6.048"},
    {"r6i.4xlarge", "1.008"},
    {"trn1.2xlarge", "1.34375"},
    {"trn1.32xlarge", "21.5"},
    {"trn1n.32xlarge", "24.78"},
};

}  // namespace

const PricePlan& builtin_prices() {
  static const PricePlan plan = [] {
    PricePlan made{"aws-us-east-1-2026-07-20", {}};
    for (const auto& [type, usd] : kAwsUsEast1) {
      const auto price = Money::parse_usd(usd);
      QM_ASSERT(price.has_value(), "built-in price of {}: {}", type, usd);
      made.entries.push_back({std::string(type), std::string(kOnDemand), "", HourlyRate{*price}});
    }
    return made;
  }();
  return plan;
}

}  // namespace qm::cost
