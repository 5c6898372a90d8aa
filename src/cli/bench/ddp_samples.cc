#include "cli/bench/ddp_samples.h"

#include <cstdint>
#include <fstream>
#include <span>
#include <vector>

#include "cli/bench/made_up_images.h"
#include "convoy/base/error.h"
#include "convoy/data/epoch_order.h"

namespace convoy::cli {
namespace {

void write_sample_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Failure("can't write " + path + "; is there room left in that folder?");
}

}  // namespace

std::size_t write_ddp_samples(const train::Recipe& recipe, const std::string& folder) {
  const auto number = [&recipe](const char* key) { return recipe.data.train.integer(key); };
  const data::Shape shape{static_cast<int>(number("channels")), static_cast<int>(number("height")),
                          static_cast<int>(number("width"))};
  const MadeUpImages images(shape, static_cast<std::size_t>(number("classes")),
                            static_cast<std::size_t>(number("images")));
  const data::EpochOrder order(images.size(), static_cast<std::uint64_t>(recipe.seed), 0);
  std::vector<std::int32_t> begins, labels;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const std::size_t sample = order[position];
    begins.push_back(static_cast<std::int32_t>(images.begin(sample)));
    labels.push_back(static_cast<std::int32_t>(images.label(sample)));
  }
  write_sample_file(folder + "/pixels", images.pixels());
  write_sample_file(folder + "/begins", std::as_bytes(std::span(begins)));
  write_sample_file(folder + "/labels", std::as_bytes(std::span(labels)));
  return order.size();
}

}  // namespace convoy::cli
