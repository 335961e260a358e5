// Scheduling of pending pods on new nodes as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/base/parse.hpp"
#include "qm/testing/text.hpp"
#include "test/pack/problems.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace qm::autoscaler::pack::testing {
namespace scheduling_table_test {

using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::trimmed;

// Karpenter v1.14.1: pkg/controllers/provisioning/suite_test.go and
// pkg/controllers/provisioning/scheduling/{suite,topology,instance_selection}_test.go.
// types | NodePool | pods | result | part of the reason of the first unplaced pod, or of the error
//   type      NAME cores=4 gib=8 usd=1 gpus=N pods=110 reserved=MILLI in=ZONE/MARKET/USD (several; ! = not available)
//             has=RESOURCE/N KEY=a+b (label); "@" stands for kSelection
//   NodePool  label=KEY/VALUE need=KEY/OP/a+b taint=KEY/VALUE/EFFECT cpu=MILLI gib=N (limits); - = none
//   pod       NAME*COUNT m=1000 gib=1 gpus=N wants=RESOURCE/N app=VALUE ns=NAME select=KEY/VALUE need=KEY/OP/a+b ("or"
//             starts the next term) prefer=WEIGHT/KEY/OP/a+b tolerate=KEY/VALUE/EFFECT (* = all) spread=KEY/SKEW/APP+APP
//             soft=KEY/SKEW/APP (ScheduleAnyway) affine=KEY/APP apart=KEY/APP
//   result    nodes=N usd=PRICE on=TYPES zones=ZONE:PODS,... skew=PODS of each zone, sorted  markets=... label=KEY/VALUE
//             of the first node  unplaced=PODS; - = none
constexpr const char* kSelection =
    "i arch=amd64 os=linux in=a/spot/1 in=a/on-demand/3 ; j arch=arm64 os=linux in=a/spot/2 in=b/on-demand/2.5 ; "
    "w arch=amd64 os=windows in=b/spot/4 in=b/on-demand/5";

constexpr const char* kRows = R"(
# Scheduling Custom Constraints NodePool with Labels should schedule unconstrained pods that don't have matching node selectors
t | label=team/ml | p | nodes=1 label=team/ml
# Scheduling Custom Constraints NodePool with Labels should not schedule pods that have conflicting node selectors
t | label=team/ml | p select=team/web | nodes=0 unplaced=p | no available offering meets
# Scheduling Custom Constraints NodePool with Labels should not schedule pods that have node selectors with undefined key
t | label=team/ml | p select=tier/gold | unplaced=p
# Scheduling Custom Constraints NodePool with Labels should schedule pods that have matching requirements
t | label=team/ml | p need=team/In/ml+ops | nodes=1
# Scheduling Custom Constraints NodePool with Labels should not schedule pods that have conflicting requirements
t | label=team/ml | p need=team/In/ops | unplaced=p
# Scheduling Custom Constraints Well Known Labels should use NodePool constraints
t in=a in=b/on-demand/2 | need=zone/In/b | p | zones=b:1 usd=2
# Scheduling Custom Constraints Well Known Labels should use node selectors
t in=a in=b/on-demand/2 | need=zone/In/a+b | p select=zone/b | zones=b:1 usd=2
# Scheduling Custom Constraints Well Known Labels should not schedule nodes with a hostname selector
t | - | p select=host/red | unplaced=p
# Scheduling Custom Constraints Well Known Labels should not schedule the pod if nodeselector unknown
t | - | p select=zone/unknown ; q | nodes=1 unplaced=p
# Scheduling Custom Constraints Well Known Labels should not schedule if node selector outside of NodePool constraints
t in=a in=b | need=zone/In/a | p select=zone/b | unplaced=p
# Scheduling Custom Constraints Well Known Labels should schedule compatible requirements with Operator=In
t in=a in=b/on-demand/2 | - | p need=zone/In/b+c | zones=b:1
# Scheduling Custom Constraints Well Known Labels should schedule compatible requirements with Operator=NotIn
t in=a in=b/on-demand/2 in=c/on-demand/3 | - | p need=zone/NotIn/a+b | zones=c:1 usd=3
# Scheduling Custom Constraints Well Known Labels should schedule compatible requirements with Operator=Gte
t size=2 ; u size=8 usd=3 ; v size=7 usd=2 | need=size/Gte/8 | p | on=u
# Scheduling Custom Constraints Well Known Labels should schedule compatible requirements with Operator=Lte
t size=2 usd=3 ; u size=8 ; v size=3 | need=size/Lte/2 | p | on=t
# Scheduling Custom Constraints Well Known Labels should schedule compatible requirements with Operator=Gt
t size=2 ; u size=8 usd=3 | need=size/Gt/2 | p | on=u
# Scheduling Custom Constraints Well Known Labels should schedule compatible requirements with Operator=Lt
t size=2 usd=3 ; u size=8 | need=size/Lt/8 | p | on=t
# Scheduling Custom Constraints Well Known Labels should not schedule incompatible preferences and requirements with Operator=In
t in=a in=b | - | p need=zone/In/x prefer=1/zone/In/a | unplaced=p
# Scheduling Custom Constraints Well Known Labels should schedule compatible preferences and requirements with Operator=In
t in=a in=b in=c | - | p need=zone/In/a+b prefer=1/zone/In/b+c | zones=b:1
# Scheduling Custom Constraints Well Known Labels should schedule incompatible preferences and requirements with Operator=In
t in=a in=b | - | p need=zone/In/a prefer=1/zone/In/b | zones=a:1
# Scheduling Custom Constraints Well Known Labels should schedule incompatible preferences and requirements with Operator=NotIn
t in=a in=b/on-demand/2 | - | p need=zone/In/b prefer=1/zone/NotIn/b | zones=b:1
# Scheduling Custom Constraints Well Known Labels should schedule compatible node selectors, preferences and requirements
t in=a in=b/on-demand/3 in=c/on-demand/2 | - | p select=zone/b need=zone/In/b+c prefer=1/zone/In/b | zones=b:1
# Scheduling Custom Constraints Well Known Labels should not schedule incompatible preferences and requirements with Operator=NotIn
t in=a in=b | - | p need=zone/NotIn/a+b prefer=1/zone/In/a | unplaced=p
# Scheduling Custom Constraints Well Known Labels should schedule compatible preferences and requirements with Operator=NotIn
t in=a in=b in=c | - | p need=zone/NotIn/a prefer=1/zone/NotIn/b | zones=c:1
# Scheduling Custom Constraints Well Known Labels should combine multidimensional node selectors, preferences and requirements
t in=a/spot in=a in=b/spot in=b | - | p select=ct/on-demand need=zone/In/a+b prefer=9/zone/In/b | zones=b:1 markets=on-demand
# Scheduling Custom Constraints Scheduling Logic should not schedule pods that have node selectors with In operator and undefined key
t | - | p need=team/In/ml | unplaced=p
# Scheduling Custom Constraints Scheduling Logic should schedule pods that have node selectors with NotIn operator and undefined key
t | - | p need=team/NotIn/ml | nodes=1
# Scheduling Custom Constraints Scheduling Logic should not schedule pods that have node selectors with Exists operator and undefined key
t | - | p need=team/Exists | unplaced=p
# Scheduling Custom Constraints Scheduling Logic should schedule pods that with DoesNotExists operator and undefined key
t | - | p need=team/DoesNotExist | nodes=1
# Scheduling Custom Constraints Scheduling Logic should schedule pods that have node selectors with matching value and In operator
t | need=team/In/ml | p need=team/In/ml | nodes=1 label=team/ml
t | need=team/Exists | p select=team/blue | nodes=1 label=team/blue
# Scheduling Custom Constraints Scheduling Logic should not schedule pods that have node selectors with matching value and NotIn operator
t | label=team/ml | p need=team/NotIn/ml | unplaced=p
# Scheduling Custom Constraints Scheduling Logic should schedule the pod with Exists operator and defined key
t | label=team/ml | p need=team/Exists | nodes=1
# Scheduling Custom Constraints Scheduling Logic should not schedule the pod with DoesNotExists operator and defined key
t | label=team/ml | p need=team/DoesNotExist | unplaced=p
# Scheduling Custom Constraints Scheduling Logic should not schedule pods that have node selectors with different value and In operator
t | need=team/In/ml+web | p need=team/In/ops | unplaced=p
# Scheduling Custom Constraints Scheduling Logic should schedule pods that have node selectors with different value and NotIn operator
t | need=team/In/ml+web | p need=team/NotIn/ml | nodes=1 label=team/web
# Scheduling Custom Constraints Scheduling Logic should schedule compatible pods to the same node
t | need=team/In/ml+ops+web | p need=team/In/ml+web ; q need=team/NotIn/ml | nodes=1 label=team/web
# Scheduling Custom Constraints Scheduling Logic should schedule incompatible pods to the different node
t | need=team/In/ml+web | p need=team/In/ml ; q need=team/In/web | nodes=2
# Scheduling Custom Constraints Scheduling Logic Exists operator should not overwrite the existing value
t | need=team/In/ml+web | p need=team/In/web need=team/Exists | nodes=1 label=team/web
# Scheduling Preferential Fallback Required should not relax the final term
t | - | p need=zone/In/x or need=zone/In/y | unplaced=p
# Scheduling Preferential Fallback Required should relax multiple terms
t in=a in=b/on-demand/2 | - | p need=zone/In/x or need=zone/In/y or need=zone/In/b | zones=b:1
# Scheduling Preferential Fallback Preferred should relax all terms
t | - | p prefer=1/zone/In/x prefer=9/zone/In/y | nodes=1
# Scheduling Preferential Fallback Preferred should relax to use lighter weights
t in=a in=b | - | p prefer=9/zone/In/x prefer=1/zone/In/b | zones=b:1
# Scheduling Preferential Fallback Preferred should schedule even if preference is conflicting with requirement
t in=a in=b | - | p select=zone/a prefer=9/zone/NotIn/a | zones=a:1
# Scheduling Preferential Fallback Preferred should schedule even if preference requirements are conflicting
t in=a in=b | - | p prefer=1/zone/In/a prefer=1/zone/NotIn/a | nodes=1
# Taints should schedule pods that tolerate NodePool constraints
t | taint=gpu/true/NoSchedule | p tolerate=gpu/true ; q tolerate=gpu ; r tolerate=* ; s | nodes=1 unplaced=s | does not tolerate the taint gpu=true:NoSchedule
t | taint=gpu/true/NoSchedule | p tolerate=gpu/false ; q tolerate=gpu/true/NoExecute ; r tolerate=cpu/true | nodes=0 unplaced=p,q,r
t | taint=gpu//NoExecute taint=team//NoSchedule | p tolerate=gpu ; q tolerate=gpu tolerate=team | nodes=1 unplaced=p | the taint team
# Provisioning Preferential Fallback Preferences should tolerate PreferNoSchedule taint only after trying to relax Affinity terms
t in=a in=b | taint=gpu//PreferNoSchedule | p prefer=1/zone/In/b | zones=b:1
# Scheduling Instance Type Compatibility should not schedule if requesting more resources than any instance type has
t cores=4 ; u cores=2 gib=64 | - | p m=4001 ; q gib=65 ; r gpus=1 | nodes=0 unplaced=p,q,r | requests 4001 of cpu
# Scheduling Instance Type Compatibility should launch pods with different archs on different instances
t arch=amd64 ; u arch=arm64 | - | p select=arch/amd64 ; q select=arch/arm64 ; r | nodes=2 on=t,u
# Scheduling Instance Type Compatibility should exclude instance types that are not supported by the pod constraints (node affinity/operating system)
t os=linux ; u os=windows usd=2 | - | p need=os/In/windows | on=u
# Scheduling Instance Type Compatibility should exclude instance types that are not supported by the pod constraints (node affinity/instance type)
t ; u usd=2 ; v usd=3 | - | p need=type/NotIn/t+u | on=v
# Scheduling Instance Type Compatibility should exclude instance types that are not supported by the provider constraints (arch)
t arch=amd64 ; u arch=arm64 usd=2 | need=arch/In/arm64 | p | on=u
# Scheduling Instance Type Compatibility should launch pods with different operating systems on different instances
t os=linux ; u os=windows | - | p select=os/linux ; q select=os/windows | on=t,u
# Scheduling Instance Type Compatibility Provider Specific Labels should filter instance types that match labels
t size=small ; u size=large usd=9 | - | p select=size/large ; q select=size/small | on=t,u
# Scheduling Instance Type Compatibility Provider Specific Labels should not schedule with incompatible labels
t size=small ; u size=large | - | p select=size/large select=type/t ; q select=size/small select=type/u | unplaced=p,q
# Scheduling Instance Type Compatibility Provider Specific Labels should schedule optional labels
t ; u local=yes usd=4 | - | p need=local/Exists | on=u
# Scheduling Instance Type Compatibility Provider Specific Labels should schedule without optional labels if disallowed
t local=yes ; u usd=4 | - | p need=local/DoesNotExist | on=u
# Scheduling NodePool requirements instance filtering should handle multiple pods when requirements filter out all instance types
t size=2 | need=size/Gt/9 | p ; q | nodes=0 unplaced=p,q
# Scheduling NodePool requirements instance filtering should handle conflicting requirements that eliminate all instance types
t arch=amd64 ; u arch=arm64 | need=arch/In/arm64 need=type/In/t | p | unplaced=p
# Scheduling NodePool requirements instance filtering should handle zone requirements that filter out all instance types
t in=a in=b! | need=zone/NotIn/a | p | unplaced=p
# Scheduling Instance Type Compatibility should launch pods with different instance type node selectors on different instances
t ; u usd=2 | - | p select=type/t ; q select=type/u | on=t,u
# Scheduling Instance Type Compatibility should launch pods with different zone selectors on different instances
t in=a in=b | - | p select=zone/a ; q select=zone/b | nodes=2 zones=a:1,b:1
# Scheduling Instance Type Compatibility should launch pods with resources that aren't on any single instance type on different instances
t gpus=1 ; u has=x.com/fpga/1 | - | p gpus=1 ; q wants=x.com/fpga/1 | on=t,u
# Scheduling Instance Type Compatibility should fail to schedule a pod with resources requests that aren't on a single instance type
t gpus=1 ; u has=x.com/fpga/1 | - | p gpus=1 wants=x.com/fpga/1 | unplaced=p | enough of all requested resources at once
# Scheduling Binpacking should schedule a small pod on the smallest instance
t cores=2 ; u cores=8 usd=4 | - | p m=100 | on=t
# Scheduling Binpacking should schedule a small pod on the smallest possible instance type
t cores=2 gib=4 ; u cores=2 gib=16 usd=1.4 ; v cores=8 gib=32 usd=4 | - | p gib=5 | on=u
# Scheduling Binpacking should select for valid instance types, regardless of price
t cores=2 usd=3 ; u cores=1 usd=2 ; v cores=4 usd=1 | - | p | on=v usd=1
# Scheduling Binpacking should schedule multiple small pods on the smallest possible instance type
t cores=2 ; u cores=4 usd=1.5 ; v cores=8 usd=4 | - | p*5 m=600 | on=u
# Scheduling Binpacking should create new nodes when a node is at capacity
t | - | p*5 m=2000 | nodes=3
# Scheduling Binpacking should pack small and large pods together
t gib=16 | - | p*2 m=1000 ; q*2 m=3000 | nodes=2
# Scheduling Binpacking should pack nodes tightly
t ; u cores=12 gib=24 usd=9 | - | p m=3000 ; q m=900 ; r m=100 ; s m=4000 | on=t,t usd=2
# Scheduling Binpacking should handle zero-quantity resource requests
t | - | p m=0 gib=0 wants=x.com/fpga/0 | nodes=1
# Scheduling Binpacking should create new nodes when a node is at capacity due to pod limits per node
t pods=2 | - | p*5 m=10 | nodes=3
# Scheduling Binpacking should not schedule pods that exceed every instance type's capacity
t cores=4 reserved=80 | - | p m=3920 ; q m=3921 | nodes=1 unplaced=q | has 3920 allocatable
# Provisioning Resource Limits should schedule if limits would be met
t cores=4 gib=8 | cpu=4000 gib=8 | p m=100 | nodes=1
# Provisioning Resource Limits should not schedule if limits would be exceeded
t cores=4 | cpu=3999 | p m=100 | unplaced=p | the limits of the NodePool exclude 1 instance types
t gib=8 ; u gib=2 usd=9 | gib=7 | p ; q gib=3 | on=u unplaced=q | the limits of the NodePool exclude 1 instance types
t cores=4 | cpu=7999 | p*2 m=4000 | error | has 8000 of cpu (milli-cores), and the limit of the NodePool is 7999
# Provisioning Resource Limits should launch a smaller instance type where a cheaper one is above the limit (no upstream test)
t ; u cores=16 usd=0.5 | cpu=4000 | p | on=t usd=1
# Topology should not spread an invalid label selector
t in=a in=b/on-demand/2 | - | p*2 app=web spread=zone/1/none | zones=a:2 nodes=1
# Topology Zonal should balance pods across zones (match labels)
t in=a in=b in=c | - | p*4 app=web spread=zone/1/web | skew=1,1,2
# Topology Zonal should balance pods across zones (match expressions)
t in=a in=b in=c | - | p*2 app=web spread=zone/1/web+api ; q*2 app=api spread=zone/1/web+api | skew=1,1,2
# Topology Zonal should respect NodePool zonal constraints
t in=a in=b in=c in=d/on-demand/0.5 | need=zone/In/a+b+c | p*4 app=web spread=zone/1/web | skew=1,1,2
# Topology Zonal should respect NodePool zonal constraints (subset) with requirements
t in=a in=b in=c | need=zone/In/a+c | p*4 app=web spread=zone/1/web | zones=a:2,c:2
# Topology Zonal should only schedule to minimum domains if already violating max skew
t in=a in=b | - | f*3 app=web select=zone/a ; p*2 app=web spread=zone/1/web | zones=a:3,b:2
# Topology Zonal should not violate max-skew when unsat = do not schedule
t in=a ; u cores=1 in=b | - | p*3 m=2000 app=web spread=zone/1/web | zones=a:1 unplaced=p2,p3
# Topology Zonal should not violate max-skew when unsat = do not schedule (discover domains)
t in=a in=b! | - | p*3 app=web spread=zone/1/web | zones=a:3
# Topology Zonal should only count running/scheduled pods with matching labels scheduled to nodes with a corresponding domain
t in=a in=b | - | x*3 app=batch select=zone/a ; y ns=other app=web select=zone/a ; p*2 app=web spread=zone/1/web | zones=a:5,b:1
# Topology Zonal should violate max-skew when unsat = schedule anyway (no upstream test)
t in=a ; u cores=1 in=b | - | p*3 m=2000 app=web soft=zone/1/web | zones=a:3
# Topology Zonal should handle interdependent selectors
t cores=64 gib=64 | - | p*5 app=other spread=host/1/web | nodes=1
# Topology Hostname should balance pods across nodes
t cores=64 gib=64 | - | p*4 app=web spread=host/1/web | nodes=4
# Topology Hostname should balance pods on the same hostname up to maxskew
t cores=64 gib=64 | - | p*8 app=web spread=host/4/web | nodes=2
# Topology Hostname balance multiple deployments with hostname topology spread
t cores=64 gib=64 | - | p*2 app=web spread=host/1/web ; q*2 app=api spread=host/1/api | nodes=2
# Topology Hostname balance multiple deployments with hostname topology spread & varying arch
t arch=amd64 ; u arch=arm64 | - | p*2 app=web spread=host/1/web select=arch/amd64 ; q*2 app=api spread=host/1/api select=arch/arm64 | nodes=4 on=t,t,u,u
# Topology Combined Hostname and Zonal Topology should spread pods while respecting both constraints (hostname and zonal)
t cores=64 gib=64 in=a in=b in=c | - | p*7 app=web spread=zone/1/web spread=host/3/web | nodes=3 skew=2,2,3
# Topology Combined Hostname and Zonal Topology should spread pods while respecting both constraints
t cores=64 gib=64 in=a in=b | - | p*8 app=web spread=zone/1/web spread=host/2/web | nodes=4 skew=4,4
# Topology Combined Zonal Topology and Node Affinity should limit spread options by nodeSelector
t in=a in=b in=c | - | p*2 app=web spread=zone/1/web select=zone/a ; q*3 app=web spread=zone/1/web select=zone/b | zones=a:2,b:3
# Topology Combined Zonal Topology and Node Affinity should limit spread options by node requirements
t in=a in=b in=c | - | p*5 app=web spread=zone/1/web need=zone/In/a+b | skew=2,3
# Topology Combined Zonal Topology and Node Affinity should not limit spread options by preferred node affinity
t in=a in=b in=c | - | p*6 app=web spread=zone/1/web prefer=1/zone/NotIn/a | skew=2,2,2
# Topology Combined Zonal Topology and Node Affinity should limit spread options by required node affinity
t in=a in=b in=c | - | p*6 app=web spread=zone/1/web need=zone/NotIn/c | zones=a:3,b:3
# Topology Pod Affinity/Anti-Affinity should respect self pod affinity (zone)
t in=a in=b | - | p*3 m=4000 app=ring affine=zone/ring | nodes=3 skew=3
# Topology Pod Affinity/Anti-Affinity should respect self pod affinity (zone w/ constraint)
t in=a in=b/on-demand/2 in=c/on-demand/3 | - | p*3 app=ring affine=zone/ring need=zone/In/b+c | zones=b:3
# Topology Pod Affinity/Anti-Affinity should separate nodes using simple pod anti-affinity on hostname
t | - | p app=web ; q apart=host/web | nodes=2
# Topology Pod Affinity/Anti-Affinity should not violate pod anti-affinity on zone
t in=a in=b | - | p app=web select=zone/a ; q app=web select=zone/b ; r apart=zone/web | zones=a:1,b:1 unplaced=r
# Topology Pod Affinity/Anti-Affinity should not violate pod anti-affinity on zone (inverse)
t in=a in=b | - | p apart=zone/web select=zone/a ; q apart=zone/web select=zone/b ; r app=web | zones=a:1,b:1 unplaced=r
# Topology Pod Affinity/Anti-Affinity should not violate pod anti-affinity on zone (other schedules first)
t in=a in=b/on-demand/2 | - | p app=web ; q apart=zone/web | zones=a:1,b:1
# Topology Pod Affinity/Anti-Affinity should support pod anti-affinity with a zone topology
t in=a in=b in=c | - | p*4 app=web apart=zone/web | skew=1,1,1 unplaced=p4
# Topology Pod Affinity/Anti-Affinity should not schedule pods with affinity to a non-existent pod
t | - | p*2 affine=zone/db ; q | nodes=1 unplaced=p1,p2 | the pods of its pod affinity
# Topology Pod Affinity/Anti-Affinity should support pod affinity with zone topology (unconstrained target)
t in=a in=b | - | p*3 m=4000 affine=zone/db ; q m=4000 app=db | nodes=4 skew=4
# Topology Pod Affinity/Anti-Affinity should support pod affinity with zone topology (constrained target)
t in=a in=b/on-demand/2 | - | p*3 affine=zone/db ; q app=db select=zone/b | zones=b:4
# Topology Pod Affinity/Anti-Affinity should handle multiple dependent affinities
t in=a in=b in=c | - | db app=db select=zone/c ; web app=web affine=zone/db ; cache app=cache affine=zone/web ; ui affine=zone/cache | zones=c:4
# Topology Pod Affinity/Anti-Affinity should fail to schedule pods with unsatisfiable dependencies
t in=a in=b | - | db app=db select=zone/a ; web select=zone/b affine=zone/db | zones=a:1 unplaced=web
# Topology Pod Affinity/Anti-Affinity should filter pod affinity topologies by namespace, no matching pods
t | - | db ns=other app=db ; p affine=zone/db | nodes=1 unplaced=p
# Instance Type Selection should schedule on one of the cheapest instances
@ | - | p | on=i usd=1
# Instance Type Selection should schedule on one of the cheapest instances (pod arch = amd64)
@ | - | p need=arch/NotIn/arm64 select=zone/b | on=w usd=4
# Instance Type Selection should schedule on one of the cheapest instances (prov arch = amd64)
@ | need=arch/In/amd64 | p | on=i usd=1
# Instance Type Selection should schedule on one of the cheapest instances (pod arch = arm64)
@ | - | p need=arch/In/arm64 | on=j usd=2
# Instance Type Selection should schedule on one of the cheapest instances (prov arch = arm64)
@ | need=arch/In/arm64 | p | on=j usd=2
# Instance Type Selection should schedule on one of the cheapest instances (pod os = windows)
@ | - | p need=os/In/windows | on=w usd=4
# Instance Type Selection should schedule on one of the cheapest instances (prov os = windows)
@ | need=os/In/windows | p | on=w usd=4
# Instance Type Selection should schedule on one of the cheapest instances (pod os = linux)
@ | - | p need=os/In/linux need=arch/NotIn/amd64 | on=j usd=2
# Instance Type Selection should schedule on one of the cheapest instances (prov zone = test-zone-2)
@ | need=zone/In/b | p | on=j usd=2.5
# Instance Type Selection should schedule on one of the cheapest instances (pod zone = test-zone-2)
@ | - | p select=zone/b | on=j usd=2.5
# Instance Type Selection should schedule on one of the cheapest instances (prov ct = spot)
@ | need=ct/In/spot need=arch/In/arm64 | p | on=j usd=2 markets=spot
# Instance Type Selection should schedule on one of the cheapest instances (pod ct = spot)
@ | - | p select=ct/spot | on=i usd=1 markets=spot
# Instance Type Selection should schedule on one of the cheapest instances (prov ct = spot, pod zone = test-zone-2)
@ | need=ct/In/spot | p select=zone/b | on=w usd=4
# Instance Type Selection should schedule on one of the cheapest instances (prov = spot/test-zone-2, pod = amd64/linux)
i arch=amd64 os=linux in=a/spot/1 in=b/spot/3 ; j arch=arm64 os=linux in=b/spot/2 | need=ct/In/spot need=zone/In/b | p select=arch/amd64 select=os/linux | on=i usd=3
# Instance Type Selection should schedule on one of the cheapest instances (pod ct = spot/test-zone-2/amd64/linux)
i arch=amd64 os=linux in=b/spot/5 in=b/on-demand/3 ; w arch=amd64 os=windows in=b/spot/1 | - | p select=ct/spot select=zone/b select=arch/amd64 select=os/linux | on=i usd=5
# Instance Type Selection should schedule on the cheapest on-demand instance (no upstream test)
@ | need=ct/In/on-demand | p | on=j usd=2.5
# Instance Type Selection should schedule on one of the cheapest instances (prov ct = ondemand, prov zone = test-zone-1)
@ | need=ct/In/on-demand need=zone/In/a | p | on=i usd=3
# Instance Type Selection should schedule on one of the cheapest instances (pod ct = spot, pod zone = test-zone-1)
@ | - | p select=ct/spot select=zone/a | on=i usd=1
# Instance Type Selection should schedule on one of the cheapest instances (prov ct = ondemand/test-zone-1/arm64/windows)
@ | need=ct/In/on-demand need=zone/In/b need=arch/In/amd64 need=os/In/windows | p | on=w usd=5
@ | need=ct/In/on-demand need=zone/In/b need=arch/In/arm64 need=os/In/linux | p | on=j usd=2.5
# Instance Type Selection should not schedule if no instance type matches selector (pod arch = arm)
@ | - | p need=arch/In/arm | unplaced=p
# Instance Type Selection should not schedule if no instance type matches selector (pod arch = arm zone=test-zone-2)
@ | - | p need=arch/In/arm select=zone/b ; q select=zone/b | nodes=1 unplaced=p
# Instance Type Selection should not schedule if no instance type matches selector (prov arch = arm / pod zone=test-zone-2)
@ | need=arch/In/arm | p select=zone/b | unplaced=p
@ | need=arch/In/arm64 | p select=ct/spot select=zone/b | unplaced=p
# Instance Type Selection should schedule on an instance with enough resources
t cores=2 gib=32 ; u cores=16 gib=4 usd=1.5 ; v cores=16 gib=32 usd=4 | - | p m=8000 gib=16 | on=v
# Instance Type Selection should schedule on cheaper on-demand instance even when spot price ordering would place other instance types first
t in=a/spot/3 in=a/on-demand/2 ; u in=a/spot/2.5 | - | p | on=t usd=2 markets=on-demand
# Topology Zonal should schedule to the non-minimum domain if its all that's available
t in=a/on-demand/1 in=b/on-demand/1 ; u cores=64 gib=64 in=c/on-demand/0.5 | - | f app=web select=zone/a ; g app=web select=zone/b ; p*9 m=4100 app=web spread=zone/4/web | zones=a:1,b:1,c:5 unplaced=p6,p7,p8,p9
# Topology Pod Affinity/Anti-Affinity should not violate pod anti-affinity on zone (Schrödinger)
t in=a in=b/on-demand/2 | - | p m=2000 apart=zone/web ; q app=web | zones=a:1,b:1
# Scheduling Custom Constraints Scheduling Logic should schedule unconstrained pods that don't have matching node selectors
t | need=team/In/ml | p | nodes=1 label=team/ml
# Provisioning Preferential Fallback Required should not relax the final term
t in=a in=b | need=zone/In/a+b | p need=zone/In/x need=arch/Exists or need=zone/In/y | unplaced=p
# Provisioning Preferential Fallback Required should relax multiple terms
t in=a/on-demand/2 in=b | - | p need=zone/In/x or need=zone/In/y or need=zone/In/a | zones=a:1 usd=2
# Provisioning Preferential Fallback Preferences should relax all node affinity terms
t in=a in=b | - | p prefer=2/zone/In/x prefer=3/zone/In/y prefer=4/arch/In/none | nodes=1
# Provisioning Preferential Fallback Preferences should relax to use lighter weights
t in=a in=b in=c | - | p prefer=8/zone/In/x prefer=2/zone/In/c | zones=c:1
# Provisioning Taints should schedule pods that tolerate taints
t | taint=nvidia.com//NoSchedule taint=team/ml/NoExecute | p tolerate=nvidia.com tolerate=team/ml ; q tolerate=nvidia.com | nodes=1 unplaced=q
# Provisioning should provision multiple nodes when maxPods is set
t pods=1 ; u usd=0.5 | need=type/In/t | p*3 m=100 | nodes=3 on=t,t,t
# Provisioning NodeClaim Creation should create a nodeclaim request restricting instance types on architecture
t arch=arm64 ; u arch=amd64 usd=2 | need=arch/In/amd64 | p | on=u
# Provisioning NodeClaim Creation should create a nodeclaim request restricting instance types on operating system
t os=windows ; u os=linux usd=2 | need=os/In/linux | p | on=u
# Provisioning NodeClaim Creation should create a nodeclaim request restricting instance types based on pod resource requests
t ; u gpus=1 usd=4 ; v has=x.com/fpga/1 usd=2 | - | p gpus=1 | on=u
# Scheduling NodePool requirements instance filtering should return appropriate pod error when no available instance types exist
t | need=type/In/none | p m=32000 gib=200 | nodes=0 unplaced=p | no available offering meets
)";

std::string key_of(const std::string& name) {
  static const std::map<std::string, std::string> kKeys{{"zone", kZone},
                                                        {"host", kHost},
                                                        {"arch", "kubernetes.io/arch"},
                                                        {"os", "kubernetes.io/os"},
                                                        {"ct", "karpenter.sh/capacity-type"},
                                                        {"type", "node.kubernetes.io/instance-type"}};
  const auto found = kKeys.find(name);
  return found == kKeys.end() ? name : found->second;
}

/// The parts between slashes, with the empty ones.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> out;
  for (const auto part : qm::split(text, '/')) out.emplace_back(part);
  return out;
}

/// The part with this number; empty if there are fewer.
std::string part(const std::vector<std::string>& parts, std::size_t number) {
  return number < parts.size() ? parts[number] : std::string();
}

std::pair<std::string, std::int64_t> amount_of(const std::string& text) {
  const auto slash = text.rfind('/');
  return {text.substr(0, slash), std::stol(text.substr(slash + 1))};
}

/// "KEY/OP/a+b"
Expression expression_of(const std::vector<std::string>& parts) {
  return {key_of(parts.at(0)), *operator_of(parts.at(1)), split(part(parts, 2), '+'), {}};
}

/// Calls `each` with the key and the value of each word but the first.
template <typename Each>
std::string read_words(const std::string& text, const Each& each) {
  const auto words = split(text, ' ');
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto eq = words[i].find('=');
    each(words[i].substr(0, eq), eq == std::string::npos ? std::string() : words[i].substr(eq + 1));
  }
  return words.at(0);
}

Offering offering_of(std::string text) {
  const bool available = !text.ends_with('!');
  if (!available) text.pop_back();
  const auto parts = parts_of(text);
  const std::string market = part(parts, 1), price = part(parts, 2);
  return {parts.at(0), market.empty() ? "on-demand" : market, price.empty() ? 0 : std::stod(price), available};
}

InstanceType read_type(const std::string& text) {
  InstanceType out = type_of("", 4, 8, 1);
  out.offerings.clear();
  double price = 1;
  out.name = read_words(text, [&](const std::string& key, const std::string& value) {
    if (key == "cores") {
      out.cpu_milli = std::stol(value) * 1000;
    } else if (key == "gib") {
      out.memory_bytes = std::stol(value) * kGiB;
    } else if (key == "usd") {
      price = std::stod(value);
    } else if (key == "gpus") {
      out.extended["nvidia.com/gpu"] = std::stol(value);
    } else if (key == "pods") {
      out.pods = std::stol(value);
    } else if (key == "reserved") {
      out.overhead_cpu_milli = std::stol(value);
    } else if (key == "in") {
      out.offerings.push_back(offering_of(value));
    } else if (key == "has") {
      out.extended.insert(amount_of(value));
    } else {
      out.requirements.push_back({key_of(key), Operator::kIn, split(value, '+'), {}});
    }
  });
  if (out.offerings.empty()) out.offerings.push_back(offering_of("a"));
  for (auto& offering : out.offerings) offering.price = offering.price > 0 ? offering.price : price;
  return out;
}

NodePool read_pool(const std::string& text) {
  NodePool out;
  (void)read_words("pool " + text, [&](const std::string& key, const std::string& value) {
    const auto parts = parts_of(value);
    if (key == "label") out.labels[parts.at(0)] = parts.at(1);
    if (key == "need") out.requirements.push_back(expression_of(parts));
    if (key == "taint") out.taints.push_back({parts.at(0), parts.at(1), parts.at(2)});
    if (key == "cpu") out.cpu_limit_milli = std::stol(value);
    if (key == "gib") out.memory_limit_bytes = std::stol(value) * kGiB;
  });
  return out;
}

/// What a pod says about nodes.
void read_node_rule(Pod& out, const std::string& key, const std::string& value) {
  const auto parts = parts_of(value);
  if (key == "select") out.node_selector[key_of(parts.at(0))] = parts.at(1);
  if (key == "need" && out.required.empty()) out.required.emplace_back();
  if (key == "need") out.required.back().push_back(expression_of(parts));
  if (key == "or") out.required.emplace_back();
  if (key == "prefer")
    out.preferred.push_back({std::stol(parts.at(0)), {expression_of({parts.begin() + 1, parts.end()})}});
  if (key == "tolerate" && value == "*") out.tolerations.push_back({"", "Exists", "", ""});
  if (key == "tolerate" && value != "*")
    out.tolerations.push_back({parts.at(0), parts.size() > 1 ? "Equal" : "Exists", part(parts, 1), part(parts, 2)});
}

std::vector<Pod> read_pods(const std::string& text) {
  Pod pod = pod_of("", 1000, 1);
  const std::string word = read_words(text, [&](const std::string& key, const std::string& value) {
    const auto parts = parts_of(value);
    if (key == "m") pod.cpu_milli = std::stol(value);
    if (key == "gib") pod.memory_bytes = std::stol(value) * kGiB;
    if (key == "gpus") pod.extended["nvidia.com/gpu"] = std::stol(value);
    if (key == "wants") pod.extended.insert(amount_of(value));
    if (key == "app") pod.labels["app"] = value;
    if (key == "ns") pod.name_space = value;
    if (key == "spread" || key == "soft")
      pod.spread.push_back({key_of(parts.at(0)),
                            std::stol(parts.at(1)),
                            {{{"app", LabelRequirement::Op::kIn, split(parts.at(2), '+')}}},
                            key == "spread"});
    if (key == "affine") pod.affinity.push_back({key_of(parts.at(0)), app_is(parts.at(1))});
    if (key == "apart") pod.anti_affinity.push_back({key_of(parts.at(0)), app_is(parts.at(1))});
    read_node_rule(pod, key, value);
  });
  const auto star = word.find('*');
  const long count = star == std::string::npos ? 1 : std::stol(word.substr(star + 1));
  std::vector<Pod> out;
  for (long i = 1; i <= count; ++i) {
    pod.uid = star == std::string::npos ? word : fmt::format("{}{}", word.substr(0, star), i);
    out.push_back(pod);
  }
  return out;
}

Problem problem_of(const std::vector<std::string>& cells) {
  Problem out;
  for (const auto& text : split(cells[0] == "@" ? kSelection : cells[0], ';')) {
    out.types.push_back(read_type(trimmed(text)));
  }
  out.pool = read_pool(cells[1]);
  for (const auto& text : split(cells[2], ';')) {
    for (auto& pod : read_pods(trimmed(text))) out.pods.push_back(std::move(pod));
  }
  return out;
}

/// What the plan has of a property of the results.
std::string found(const Problem& problem, const Plan& plan, const std::string& property, const std::string& expected) {
  std::vector<std::string> types, markets, unplaced, zones, counts;
  std::map<std::string, std::size_t> pods;
  for (const auto& node : plan.nodes) {
    const auto& offering = problem.types[node.type].offerings[node.offering];
    types.push_back(problem.types[node.type].name);
    markets.push_back(offering.capacity_type);
    pods[offering.zone] += node.pods.size();
  }
  for (const auto& one : plan.unplaced) unplaced.push_back(problem.pods[one.pod].uid);
  for (const auto& [zone, count] : pods) zones.push_back(fmt::format("{}:{}", zone, count));
  for (const auto& [zone, count] : pods) counts.push_back(std::to_string(count));
  for (auto* list : {&types, &markets, &counts}) std::ranges::sort(*list);
  if (property == "nodes") return std::to_string(plan.nodes.size());
  if (property == "usd") return fmt::format("{}", plan.price);
  if (property == "on") return fmt::format("{}", fmt::join(types, ","));
  if (property == "markets") return fmt::format("{}", fmt::join(markets, ","));
  if (property == "zones") return fmt::format("{}", fmt::join(zones, ","));
  if (property == "skew") return fmt::format("{}", fmt::join(counts, ","));
  if (property == "unplaced") return fmt::format("{}", fmt::join(unplaced, ","));
  if (property != "label" || plan.nodes.empty()) return "no such property";
  const auto key = parts_of(expected).at(0);
  for (const auto& one : plan.nodes[0].requirements) {
    if (one.key == key) return fmt::format("{}/{}", key, fmt::join(one.values, "+"));
  }
  return key + " is not set";
}

void check(const Problem& problem, const Plan& plan, const std::vector<std::string>& cells, const std::string& row) {
  const auto held = still_holds(problem, plan);
  EXPECT_TRUE(held) << row << "\n" << (held ? "" : held.error().to_string());
  EXPECT_LE(plan.bound, plan.cost) << row;
  (void)read_words("result " + cells[3], [&](const std::string& property, const std::string& expected) {
    EXPECT_EQ(found(problem, plan, property, expected), expected) << row;
  });
  EXPECT_EQ(plan.unplaced.empty(), cells[3].find("unplaced=") == std::string::npos) << row;
  if (cells.size() < 5) return;
  ASSERT_FALSE(plan.unplaced.empty()) << row;
  EXPECT_NE(plan.unplaced[0].reason.find(cells[4]), std::string::npos) << row << "\n" << plan.unplaced[0].reason;
}

TEST(Scheduling, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_GE(cells.size(), 4U) << row;
    const Problem problem = problem_of(cells);
    const auto plan = pack(problem);
    if (cells[3] == "error") {
      ASSERT_FALSE(plan) << row;
      EXPECT_NE(plan.error().message.find(cells.at(4)), std::string::npos) << row << "\n" << plan.error().message;
      continue;
    }
    ASSERT_TRUE(plan) << row << "\n" << plan.error().to_string();
    check(problem, *plan, cells, row);
  }
  EXPECT_EQ(rows.size(), 153U);
}

}  // namespace scheduling_table_test
}  // namespace qm::autoscaler::pack::testing
