// The algorithms of allreduce in one table: who adds one adds its row, and its function.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/allreduce/choice.h"

namespace convoy::comm {

// What a group needs for an algorithm besides messages.
enum class Needs : std::uint8_t {
  nothing,
  one_host,    // all ranks on one host, sharing memory
  even_hosts,  // the same number of ranks on each host, sharing memory there
  own_mpi      // all ranks of a world that MPI connects
};

// What an algorithm is given: as allreduce().
struct AllreduceWork {
  Io& io;
  const Locality& locality;
  const Call& call;
  Buffer data;
  ReduceOp op;
  const AllreduceChoice& choice;
  Turn turn;
};

struct AllreduceRow {
  AllreduceAlgorithm algorithm;
  const char* name;  // in rules
  bool colored;      // has the parameter k
  bool pipelined;    // has the parameters segment and in-flight
  Needs needs;
  Task (*run)(AllreduceWork work);
};

// All of them, in the order of AllreduceAlgorithm.
std::span<const AllreduceRow> allreduce_table();
const AllreduceRow& row_of(AllreduceAlgorithm algorithm);
// Nothing if no algorithm has this name.
const AllreduceRow* find_row(std::string_view name);

// When they are chosen where nobody says: the rules that every selection ends with. They fit
// everything.
extern const char* const kBuiltInSelection;

}  // namespace convoy::comm
