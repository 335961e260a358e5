#!/usr/bin/env python3
"""Calls every action of the simulated AWS with the AWS SDK for Python, and checks its answers against the SDK's models.

    sdk.py ENDPOINT SOURCES

Each action of the sources below SOURCES must be called. An element of an answer that the model of the action does not
have is a failure: the SDK would skip it without a word. Prints one line per failure and exits with 1 if there are any.
"""
import glob
import re
import sys
import time
import xml.etree.ElementTree as xml

import boto3
import botocore.config
import botocore.exceptions
import botocore.parsers

ENDPOINT, SOURCES = sys.argv[1], sys.argv[2]
SERVICES = ("ec2", "autoscaling", "sqs", "iam", "ssm", "sts")
failures = []
called = set()


def expect(condition, text):
    if not condition:
        failures.append(text)


def unknown_elements(element, shape, path, ec2):
    """Elements without a member in the shape of the model."""
    if shape.type_name == "list":
        if shape.serialization.get("flattened"):
            yield from unknown_elements(element, shape.member, path, ec2)
            return
        for child in element:
            if local(child) not in ("item", "member"):
                yield f"{path}/{local(child)}"
            yield from unknown_elements(child, shape.member, path + "[]", ec2)
    elif shape.type_name == "structure":
        members = {}
        for name, member in shape.members.items():
            members[member.serialization.get("name", name)] = member
        for child in element:
            if local(child) in members:
                yield from unknown_elements(child, members[local(child)], f"{path}/{local(child)}", ec2)
            else:
                yield f"{path}/{local(child)}"
    elif shape.type_name == "timestamp" and not re.match(r"\d{4}-\d\d-\d\dT", element.text or ""):
        yield f"{path} is no timestamp: {element.text}"
    elif shape.type_name in ("integer", "long") and not re.fullmatch(r"-?\d+", element.text or ""):
        yield f"{path} is no number: {element.text}"
    elif shape.type_name == "boolean" and element.text not in ("true", "false"):
        yield f"{path} is no boolean: {element.text}"


def local(element):
    return element.tag.split("}")[-1]


plain_parse = botocore.parsers.ResponseParser.parse


def checked_parse(self, response, shape):
    body = response["body"]
    if response["status_code"] < 300 and body.lstrip().startswith(b"<") and shape is not None:
        root = xml.fromstring(body)
        result = [e for e in root if local(e).endswith("Result")]
        top = result[0] if result else root
        for found in unknown_elements(top, shape, shape.name, not result):
            if found not in (shape.name + "/requestId", shape.name + "/return"):
                failures.append(f"the model has no {found}")
    return plain_parse(self, response, shape)


botocore.parsers.ResponseParser.parse = checked_parse


def client(service, **options):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", **options}
    made = boto3.client(service, endpoint_url=ENDPOINT, region_name="us-east-1",
                        config=botocore.config.Config(retries={"max_attempts": 1}), **keys)
    made.meta.events.register("before-call", lambda model, **_: called.add((service, model.name)))
    return made


clients = {service: client(service) for service in SERVICES}
ec2, autoscaling, sqs, iam, ssm, sts = clients.values()


def refused(code, call, **parameters):
    """The call fails with the code, and the SDK can read it."""
    try:
        call(**parameters)
        failures.append(f"{call.__name__} is not refused with {code}")
    except botocore.exceptions.ClientError as error:
        got = error.response["Error"]
        expect(got["Code"] == code, f"{call.__name__}: {got['Code']} instead of {code}")
        expect(bool(got.get("Message")), f"{call.__name__}: {code} without a message")
        expect(bool(error.response["ResponseMetadata"].get("RequestId")), f"{call.__name__}: {code} without a request id")


def until(text, condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    failures.append("not within 10 seconds: " + text)


def instances():
    run = ec2.run_instances(InstanceType="g5.xlarge", ImageId="ami-00000000", MinCount=2, MaxCount=2, ClientToken="sdk-1",
                            TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "sdk", "Value": "1 & 2"}]}])
    ids = [i["InstanceId"] for i in run["Instances"]]
    expect(len(ids) == 2, "two instances")
    seen = ec2.describe_instances(Filters=[{"Name": "tag:sdk", "Values": ["1 & 2"]}])["Reservations"]
    expect(sorted(i["InstanceId"] for r in seen for i in r["Instances"]) == sorted(ids), "found by tag")
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    expect(sum(len(p["Reservations"]) for p in pages) >= 2, "all pages")
    ec2.create_tags(Resources=ids, Tags=[{"Key": "more", "Value": "x"}])
    status = ec2.describe_instance_status(InstanceIds=ids, IncludeAllInstances=True)["InstanceStatuses"]
    expect(len(status) == 2 and status[0]["InstanceState"]["Name"] in ("pending", "running"), "status of both")
    topology = ec2.describe_instance_topology(InstanceIds=ids)["Instances"]
    expect(all(len(i["NetworkNodes"]) == 3 for i in topology), "three layers of network nodes")
    refused("IdempotentParameterMismatch", ec2.run_instances, InstanceType="g5.2xlarge", ImageId="ami-00000000", MinCount=2,
            MaxCount=2, ClientToken="sdk-1")
    refused("InvalidInstanceID.NotFound", ec2.describe_instances, InstanceIds=["i-00000000000000000"])
    refused("InvalidAMIID.NotFound", ec2.run_instances, InstanceType="g5.xlarge", ImageId="ami-0", MinCount=1, MaxCount=1)
    ended = ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    expect(ended[0]["CurrentState"]["Name"] == "shutting-down", "shutting down")


def catalog():
    types = ec2.describe_instance_types(InstanceTypes=["p5.48xlarge"])["InstanceTypes"][0]
    expect(types["GpuInfo"]["Gpus"][0]["Count"] == 8, "eight GPUs")
    offered = ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=[
        {"Name": "instance-type", "Values": ["p5.*"]}])["InstanceTypeOfferings"]
    expect({o["Location"] for o in offered} == {"us-east-1a", "us-east-1b", "us-east-1c"}, "in three zones")
    prices = ec2.describe_spot_price_history(InstanceTypes=["p5.48xlarge"], ProductDescriptions=["Linux/UNIX"])
    expect(float(prices["SpotPriceHistory"][0]["SpotPrice"]) > 0, "a spot price")
    scores = ec2.get_spot_placement_scores(InstanceTypes=["p5.48xlarge", "g5.xlarge", "g5.2xlarge"], TargetCapacity=4,
                                           SingleAvailabilityZone=True)["SpotPlacementScores"]
    expect([s["AvailabilityZoneId"] for s in scores] == ["use1-az1", "use1-az2", "use1-az3"], "a score for each zone")
    expect(all(1 <= s["Score"] <= 10 for s in scores), "scores from 1 to 10")
    blocks = ec2.describe_capacity_block_offerings(InstanceType="p5.48xlarge", InstanceCount=4, CapacityDurationHours=48)
    block = blocks["CapacityBlockOfferings"][0]
    expect((block["EndDate"] - block["StartDate"]).total_seconds() == 48 * 3600, "48 hours")
    refused("InvalidInstanceType", ec2.describe_instance_types, InstanceTypes=["p99.huge"])
    refused("InvalidParameterValue", ec2.describe_capacity_block_offerings, InstanceType="p5.48xlarge", InstanceCount=1,
            CapacityDurationHours=25)


def account():
    expect(len(ec2.describe_images(Owners=["amazon"])["Images"]) > 0, "images")
    subnets = ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["quartermaster"]}])["Subnets"]
    expect(len(subnets) == 3 and subnets[0]["AvailableIpAddressCount"] > 0, "subnets")
    expect(len(ec2.describe_security_groups()["SecurityGroups"]) == 2, "security groups")
    expect(ec2.describe_placement_groups()["PlacementGroups"][0]["Strategy"] == "cluster", "a placement group")
    expect(ec2.describe_capacity_reservations()["CapacityReservations"] == [], "no reservations")
    iam.create_instance_profile(InstanceProfileName="sdk")
    iam.add_role_to_instance_profile(InstanceProfileName="sdk", RoleName="nodes")
    profile = iam.get_instance_profile(InstanceProfileName="sdk")["InstanceProfile"]
    expect(profile["Roles"][0]["RoleName"] == "nodes", "the role of the profile")
    refused("EntityAlreadyExists", iam.create_instance_profile, InstanceProfileName="sdk")
    refused("NoSuchEntity", iam.get_instance_profile, InstanceProfileName="none")
    name = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
    expect(ssm.get_parameter(Name=name)["Parameter"]["Value"].startswith("ami-"), "the image of EKS")
    refused("ParameterNotFound", ssm.get_parameter, Name="/none")


def fleets():
    made = ec2.create_launch_template(LaunchTemplateName="sdk-nodes", LaunchTemplateData={"ImageId": "ami-00000000"},
                                      TagSpecifications=[{"ResourceType": "launch-template",
                                                          "Tags": [{"Key": "sdk", "Value": "t"}]}])["LaunchTemplate"]
    refused("InvalidLaunchTemplateName.AlreadyExistsException", ec2.create_launch_template, LaunchTemplateName="sdk-nodes",
            LaunchTemplateData={"ImageId": "ami-00000000"})
    listed = ec2.describe_launch_templates(LaunchTemplateIds=[made["LaunchTemplateId"]])["LaunchTemplates"]
    expect(listed[0]["Tags"] == [{"Key": "sdk", "Value": "t"}], "tags of the template")

    def fleet(overrides, target, **more):
        return dict(Type="instant", LaunchTemplateConfigs=[{
            "LaunchTemplateSpecification": {"LaunchTemplateName": "sdk-nodes", "Version": "$Latest"},
            "Overrides": overrides}], TargetCapacitySpecification={"TotalTargetCapacity": target,
                                                                  "DefaultTargetCapacityType": "on-demand"}, **more)

    gang = {"MinTargetCapacity": 3, "SingleAvailabilityZone": True, "SingleInstanceType": True,
            "AllocationStrategy": "prioritized"}
    got = ec2.create_fleet(**fleet([{"InstanceType": "p5.48xlarge", "AvailabilityZone": "us-east-1b", "Priority": 1.0,
                                     "WeightedCapacity": 1}], 3, OnDemandOptions=gang, ClientToken="sdk-f"))
    ids = [i for one in got["Instances"] for i in one["InstanceIds"]]
    expect(len(ids) == 3 and got["Errors"] == [], "three instances and no errors")
    expect(got["Instances"][0]["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-east-1b", "the override")
    bad = ec2.create_fleet(**fleet([{"InstanceType": "p5.48xlarge", "SubnetId": "subnet-none"}], 1))
    expect(bad["Instances"] == [] and bad["Errors"][0]["ErrorCode"] == "InvalidSubnetID.NotFound", "an error in a 200")
    refused("InvalidParameterCombination", ec2.create_fleet,
            **fleet([{"InstanceType": "p5.48xlarge"}], 3, OnDemandOptions={"MinTargetCapacity": 3}))
    ec2.terminate_instances(InstanceIds=ids)
    ec2.delete_launch_template(LaunchTemplateName="sdk-nodes")
    refused("InvalidLaunchTemplateName.NotFoundException", ec2.create_fleet, **fleet([{"InstanceType": "g5.xlarge"}], 1))


def groups():
    ec2.create_launch_template(LaunchTemplateName="sdk-group",
                               LaunchTemplateData={"ImageId": "ami-00000000", "InstanceType": "g5.xlarge"})
    group = {"AutoScalingGroupName": "sdk-group"}
    autoscaling.create_auto_scaling_group(
        **group, LaunchTemplate={"LaunchTemplateName": "sdk-group", "Version": "$Latest"}, MinSize=0, MaxSize=8,
        DesiredCapacity=2, AvailabilityZones=["us-east-1a", "us-east-1b"],
        Tags=[{"Key": "team", "Value": "ml", "PropagateAtLaunch": True}])

    def members():
        return autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=["sdk-group"])["AutoScalingGroups"][0]["Instances"]

    def states():
        return sorted(m["LifecycleState"] for m in members())

    until("two in service", lambda: states() == ["InService"] * 2)
    seen = autoscaling.describe_auto_scaling_instances(InstanceIds=[members()[0]["InstanceId"]])["AutoScalingInstances"]
    expect(seen[0]["AutoScalingGroupName"] == "sdk-group", "the group of a member")
    tags = autoscaling.describe_tags(Filters=[{"Name": "auto-scaling-group", "Values": ["sdk-group"]}])["Tags"]
    expect(tags[0]["Key"] == "team" and tags[0]["PropagateAtLaunch"] is True, "tags")
    activities = autoscaling.describe_scaling_activities(**group)["Activities"]
    expect(len(activities) == 2 and activities[0]["StatusCode"] == "Successful", "activities")
    launched = autoscaling.launch_instances(**group, RequestedCapacity=2, ClientToken="sdk-l", AvailabilityZones=["us-east-1a"])
    again = autoscaling.launch_instances(**group, RequestedCapacity=2, ClientToken="sdk-l", AvailabilityZones=["us-east-1a"])
    expect(len(launched["Instances"][0]["InstanceIds"]) == 2 and launched["Errors"] == [], "launched in the zone")
    expect(again["Instances"] == launched["Instances"], "the token is idempotent")
    until("four in service", lambda: states() == ["InService"] * 4)
    kept = [m["InstanceId"] for m in members()]
    autoscaling.set_instance_protection(**group, InstanceIds=kept[:3], ProtectedFromScaleIn=True)
    autoscaling.set_desired_capacity(**group, DesiredCapacity=0, HonorCooldown=False)
    until("the protected ones stay", lambda: len(members()) == 3)
    expect(all(m["ProtectedFromScaleIn"] for m in members()), "protected")
    autoscaling.set_desired_capacity(**group, DesiredCapacity=3, HonorCooldown=False)
    detached = autoscaling.detach_instances(**group, InstanceIds=kept[:1], ShouldDecrementDesiredCapacity=True)
    expect(len(detached["Activities"]) == 1 and len(members()) == 2, "detached")
    autoscaling.put_lifecycle_hook(**group, LifecycleHookName="drain", HeartbeatTimeout=7200, DefaultResult="CONTINUE",
                                   LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING")
    hooks = autoscaling.describe_lifecycle_hooks(**group)["LifecycleHooks"]
    expect(hooks[0]["GlobalTimeout"] == 172800 and hooks[0]["DefaultResult"] == "CONTINUE", "the hook")
    leaving = kept[1]
    ended = autoscaling.terminate_instance_in_auto_scaling_group(InstanceId=leaving, ShouldDecrementDesiredCapacity=True)
    expect(ended["Activity"]["StatusCode"] == "InProgress", "an activity")
    expect("Terminating:Wait" in states(), "the hook holds it")
    action = {**group, "LifecycleHookName": "drain", "InstanceId": leaving}
    autoscaling.record_lifecycle_action_heartbeat(**action)
    autoscaling.complete_lifecycle_action(**action, LifecycleActionResult="CONTINUE")
    refused("ValidationError", autoscaling.complete_lifecycle_action, **action, LifecycleActionResult="CONTINUE")
    until("it has left", lambda: len(members()) == 1)
    autoscaling.put_warm_pool(**group, PoolState="Running", MinSize=1, MaxGroupPreparedCapacity=2)
    until("a warm member", lambda: [i["LifecycleState"] for i in autoscaling.describe_warm_pool(**group)["Instances"]] ==
          ["Warmed:Running"])
    expect(autoscaling.describe_warm_pool(**group)["WarmPoolConfiguration"]["MinSize"] == 1, "the pool")
    refused("ValidationError", autoscaling.set_desired_capacity, AutoScalingGroupName="none", DesiredCapacity=1)
    refused("ValidationError", autoscaling.set_desired_capacity, **group, DesiredCapacity=99)
    refused("AlreadyExists", autoscaling.create_auto_scaling_group, **group, MinSize=0, MaxSize=1,
            LaunchTemplate={"LaunchTemplateName": "sdk-group"}, AvailabilityZones=["us-east-1a"])


def queues():
    url = sqs.create_queue(QueueName="sdk", Attributes={"VisibilityTimeout": "30"})["QueueUrl"]
    expect(sqs.get_queue_url(QueueName="sdk")["QueueUrl"] == url, "the URL")
    sqs.send_message(QueueUrl=url, MessageBody='{"a": "\u00e9"}')
    message = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)["Messages"][0]
    expect(message["Body"] == '{"a": "\u00e9"}', "the body; the SDK has checked its digest")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    for extra in sorted(actions_of("sqs") - {"CreateQueue", "GetQueueUrl", "SendMessage", "ReceiveMessage", "DeleteMessage"}):
        parameters = {"DeleteMessageBatch": {"Entries": [{"Id": "1", "ReceiptHandle": message["ReceiptHandle"]}]},
                      "GetQueueAttributes": {"AttributeNames": ["All"]}}[extra]
        getattr(sqs, botocore.xform_name(extra))(QueueUrl=url, **parameters)
    refused("AWS.SimpleQueueService.NonExistentQueue", sqs.get_queue_url, QueueName="none")
    refused("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=url, ReceiptHandle="x")


def identities():
    keys = sts.assume_role_with_web_identity(RoleArn="arn:aws:iam::000000000000:role/sdk", RoleSessionName="sdk",
                                             WebIdentityToken="jwt.of.a.pod")["Credentials"]
    session = {"aws_access_key_id": keys["AccessKeyId"], "aws_secret_access_key": keys["SecretAccessKey"],
               "aws_session_token": keys["SessionToken"]}
    expect(client("sts", **session).get_caller_identity()["Account"] == "000000000000", "signed with session keys")
    wrong = {**session, "aws_session_token": "sdk|1"}
    refused("AuthFailure", client("ec2", **wrong).describe_instances)
    refused("InvalidClientTokenId", client("sts", **wrong).get_caller_identity)
    refused("SignatureDoesNotMatch", client("autoscaling", aws_secret_access_key="wrong").describe_auto_scaling_groups)


def actions_of(service):
    """The actions of the service that the sources name."""
    model = clients[service].meta.service_model
    names = set()
    for path in glob.glob(SOURCES + "/aws*.cpp"):
        names |= set(re.findall(r'(?:action == |\{)"([A-Z]\w+)"', open(path).read()))
        names |= set(re.findall(r'"((?:Describe|Get)\w+)"', open(path).read()))
    if service == "ec2":
        names.discard("DescribeTags")  # of Auto Scaling
    return names & set(model.operation_names)


for part in (instances, catalog, account, fleets, groups, queues, identities):
    try:
        part()
    except Exception as error:  # the other parts still run
        failures.append(f"{part.__name__}: {type(error).__name__}: {error}")
for service in SERVICES:
    for action in sorted(actions_of(service)):
        expect((service, action) in called, f"{service}.{action} is not called")
print("\n".join(failures) if failures else f"{len(called)} actions")
sys.exit(1 if failures else 0)
