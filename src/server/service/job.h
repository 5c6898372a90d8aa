// What all processes of a job know of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/server/job.h"
#include "server/transport/message.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server {

inline constexpr std::uint16_t kServiceVersion = 1;  // in front of every call's bytes

// Throw UsageError that names the field, its value and what would be right.
void check(const JobPlan& plan);
void check(const JobDescription& description);

// The format of both is in docs/server-coordinator.md.
void write(Writer& writer, const JobPlan& plan);
JobPlan read_job_plan(Reader& reader);  // checked
void write(Writer& writer, const JobDescription& description);
JobDescription read_job_description(Reader& reader);  // checked

// Which servers have a shard: its first primary and its backup; one alone without backups. Servers
// are numbered from 1; shard s is on server s + 1 and the next one (after the last the first).
std::vector<std::uint64_t> servers_of(std::uint32_t shard, const JobPlan& plan);
// The least number of servers that a plan needs: 2 with backups, else 1.
std::uint32_t servers_needed(const JobPlan& plan);

// What two descriptions of a model differ in, in one line that says what is here and what there;
// empty if nothing.
std::string difference(const JobDescription& here, const JobDescription& there);

}  // namespace convoy::server
