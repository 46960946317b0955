// What launchers tell a process, as tables: each row is an environment and what it means, or its error.
#include "mesh/environment.hpp"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::mesh {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<ProcessRanks> read(const Variables& variables) {
  return ranks_of_environment(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      "thishost");
}
std::string error_of(const Variables& variables) {
  try {
    read(variables);
    return "ok";
  } catch (const MeshError& error) { return error.what(); }
}
/// launcher rank/size local_rank/local_size node address:port, where - is unknown.
std::string text(const std::optional<ProcessRanks>& r) {
  if (!r) return "none";
  const auto known = [](const std::optional<int>& n) { return n ? std::to_string(*n) : std::string("-"); };
  return std::string(r->launcher) + " " + std::to_string(r->rank) + "/" + std::to_string(r->size) + " " +
         known(r->local_rank) + "/" + known(r->local_size) + " " + r->node + " " + r->address + ":" +
         std::to_string(r->master_port);
}

const Variables kTorchrun{
    {"RANK", "5"},       {"WORLD_SIZE", "8"},         {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "4"},
    {"GROUP_RANK", "1"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29400"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"PMIX_RANK", "3"}};
const Variables kSlurm{{"SLURM_PROCID", "4"},
                       {"SLURM_NTASKS", "9"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_STEP_NUM_TASKS", "6"},
                       {"SLURM_STEP_TASKS_PER_NODE", "4,2"},
                       {"SLURM_STEP_NODELIST", "gpu[03-04]"}};

Variables with(Variables base, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    if (value == "-")
      base.erase(name);
    else
      base[name] = value;
  }
  return base;
}

TEST(MeshEnvironment, EachLauncherIsUnderstood) {
  const struct {
    Variables variables;
    const char* expected;
  } rows[] = {
      {{}, "none"},
      {{{"RANK", ""}, {"WORLD_SIZE", ""}}, "none"},
      {kTorchrun, "torchrun 5/8 1/4 node 1 10.0.0.1:29400"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}, "torchrun 0/1 0/- thishost 127.0.0.1:0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}, "torchrun 0/2 0/- thishost :0"},
      {kOpenMpi, "Open MPI 3/4 3/4 thishost 127.0.0.1:0"},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}, {"MASTER_ADDR", "a.b"}}), "Open MPI 3/8 3/4 thishost a.b:0"},
      {kSlurm, "SLURM 4/6 0/2 node 1 gpu03:0"},
      {with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "3(x2)"}}), "SLURM 4/6 0/3 node 1 gpu03:0"},
      {with(kSlurm,
            {{"SLURM_STEP_TASKS_PER_NODE", "-"}, {"SLURM_NTASKS_PER_NODE", "2"}, {"SLURM_STEP_NODELIST", "a,b"}}),
       "SLURM 4/6 0/2 node 1 a:0"},
      {with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "-"}, {"SLURM_STEP_NODELIST", "r[1,3]n[2-3]"}}),
       "SLURM 4/9 0/2 node 1 r1n2:0"},
      {with(kSlurm, {{"SLURM_STEP_NODELIST", "n[7]-ib,x"}}), "SLURM 4/6 0/2 node 1 n7-ib:0"},
      {with(kSlurm, {{"PMIX_RANK", "4"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "1"}}),
       "SLURM 4/6 0/2 node 1 head:1"},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "PMI 1/2 -/- thishost :0"},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       "PMI 1/2 1/2 thishost 127.0.0.1:0"},
  };
  for (const auto& row : rows) EXPECT_EQ(text(read(row.variables)), row.expected);
}

TEST(MeshEnvironment, TheInnermostLauncherCounts) {
  EXPECT_EQ(read(with(kSlurm, kTorchrun))->rank, 5);    // torchrun under srun
  EXPECT_EQ(read(with(kOpenMpi, kTorchrun))->rank, 5);  // PMIX_RANK is mpirun's
  EXPECT_EQ(read(with(kSlurm, kOpenMpi))->rank, 3);     // mpirun in an allocation
}

TEST(MeshEnvironment, ABatchScriptIsNoTask) {
  const Variables script = with(kSlurm, {{"SLURM_STEP_ID", "-"}, {"SLURM_STEP_NUM_TASKS", "-"}});
  EXPECT_EQ(text(read(script)), "none");
}

TEST(MeshEnvironment, WhatIsWrongIsNamed) {
  const struct {
    Variables variables;
    std::vector<const char*> parts;
  } rows[] = {
      {with(kTorchrun, {{"RANK", "x"}}), {"RANK is \"x\"", "a whole number from 0 to"}},
      {with(kTorchrun, {{"RANK", "-1"}}), {"RANK is \"-1\"", "a whole number from 0"}},
      {with(kTorchrun, {{"RANK", "5 "}}), {"RANK is \"5 \""}},
      {with(kTorchrun, {{"RANK", "8"}}), {"RANK is \"8\"", "less than WORLD_SIZE, which is 8"}},
      {with(kTorchrun, {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE is \"0\"", "from 1"}},
      {with(kTorchrun, {{"RANK", "-"}}), {"RANK is not set, but WORLD_SIZE is"}},
      {with(kTorchrun, {{"WORLD_SIZE", "-"}}), {"WORLD_SIZE is not set, but RANK is"}},
      {with(kTorchrun, {{"LOCAL_RANK", "-"}}), {"LOCAL_RANK is not set, but RANK is"}},
      {with(kTorchrun, {{"LOCAL_RANK", "6"}}), {"LOCAL_RANK is \"6\"", "at most RANK, which is 5"}},
      {with(kTorchrun, {{"LOCAL_RANK", "4"}}), {"LOCAL_RANK is \"4\"", "less than LOCAL_WORLD_SIZE, which is 4"}},
      {with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), {"LOCAL_WORLD_SIZE is \"9\"", "at most WORLD_SIZE, which is 8"}},
      {with(kTorchrun, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT is \"70000\"", "from 1 to 65535"}},
      {with(kOpenMpi, {{"PMIX_RANK", "2"}}), {"PMIX_RANK is \"2\"", "the same as OMPI_COMM_WORLD_RANK, which is 3"}},
      {with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "-"}}), {"OMPI_COMM_WORLD_SIZE is not set"}},
      {with(kSlurm, {{"PMIX_RANK", "5"}}), {"PMIX_RANK is \"5\"", "SLURM_PROCID, which is 4"}},
      {with(kSlurm, {{"SLURM_LOCALID", "2"}}), {"SLURM_LOCALID is \"2\"", "SLURM_STEP_TASKS_PER_NODE, which is 2"}},
      {with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "6"}}),
       {"SLURM_STEP_TASKS_PER_NODE is \"6\"", "the count of node 1"}},
      {with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x"}}), {"counts as in 4(x2),3"}},
      {with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu[03"}}), {"SLURM_STEP_NODELIST is \"gpu[03\"", "gpu[03-06,9]"}},
      {{{"PMIX_RANK", "0"}}, {"PMIX_RANK is \"0\"", "the number of processes"}},
      {{{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}, {"PMI_RANK is \"2\"", "less than PMI_SIZE"}},
  };
  for (const auto& row : rows) {
    const std::string error = error_of(row.variables);
    EXPECT_THAT(error, HasSubstr("MeshError"));
    for (const char* part : row.parts) EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(MeshEnvironment, TheMeetingPointLeavesTheLaunchersPortAlone) {
  MeetingPoint point = meeting_point(*read(kTorchrun), 0);
  EXPECT_EQ(point.address, "10.0.0.1");
  EXPECT_EQ(point.watch_port, 29401);
  EXPECT_EQ(point.nccl_port, 29402);
  EXPECT_EQ(meeting_point(*read(kTorchrun), 7000).watch_port, 7000);
  EXPECT_EQ(meeting_point(*read(kOpenMpi), 0).watch_port, 29501);
  EXPECT_EQ(meeting_point(*read(kOpenMpi), 65534).nccl_port, 65535);

  const auto error = [](const ProcessRanks& ranks, int port) -> std::string {
    try {
      return meeting_point(ranks, port).address;
    } catch (const MeshError& e) { return e.what(); }
  };
  EXPECT_THAT(error(*read(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}})), 0), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(error(*read(kOpenMpi), 65535), HasSubstr("the ports 65535 and 65536"));
  EXPECT_THAT(error(*read(with(kTorchrun, {{"MASTER_PORT", "65534"}})), 0), HasSubstr("TESSERA_MESH_PORT"));
}

}  // namespace
}  // namespace tessera::mesh
