// Convolutions of images in the order image, channel, row, column (NCHW), float32, of any shape.
//
// Constants: CHANNELS, output channels in the registers of an item of conv_direct.

#define GEOMETRY \
    const int channels, const int height, const int width, const int filters, const int out_height, \
        const int out_width, const int size, const int stride, const int padding

// One item: a pixel of CHANNELS output channels of an image. Items: columns, rows, channels and images.
__kernel void conv_direct(GEOMETRY, __global const float *restrict images,
                          __global const float *restrict weights, __global float *restrict out) {
    const int x = get_global_id(0), y = get_global_id(1);
    const int blocks = (filters + CHANNELS - 1) / CHANNELS;
    const int image = get_global_id(2) / blocks, first = get_global_id(2) % blocks * CHANNELS;
    if (x >= out_width || y >= out_height) return;
    const int of_filter = channels * size * size;
    float sums[CHANNELS];
    for (int f = 0; f < CHANNELS; ++f) sums[f] = 0.0f;
    for (int c = 0; c < channels; ++c) {
        __global const float *plane = images + (image * channels + c) * height * width;
        for (int i = 0; i < size; ++i) {
            const int row = y * stride + i - padding;
            if (row < 0 || row >= height) continue;
            for (int j = 0; j < size; ++j) {
                const int column = x * stride + j - padding;
                if (column < 0 || column >= width) continue;
                const float pixel = plane[row * width + column];
                const int at = (c * size + i) * size + j;
                for (int f = 0; f < CHANNELS; ++f)
                    sums[f] = fma(pixel, weights[min(first + f, filters - 1) * of_filter + at], sums[f]);
            }
        }
    }
    for (int f = 0; f < CHANNELS && first + f < filters; ++f)
        out[((image * filters + first + f) * out_height + y) * out_width + x] = sums[f];
}

// Patches of one image as columns: rows are channel, row and column of the filter. Items: output
// columns, output rows, rows of the matrix.
__kernel void conv_im2col(GEOMETRY, __global const float *restrict images, const int image,
                          __global float *restrict patches) {
    const int x = get_global_id(0), y = get_global_id(1), at = get_global_id(2);
    const int j = at % size, i = at / size % size, c = at / (size * size);
    const int row = y * stride + i - padding, column = x * stride + j - padding;
    const int inside = row >= 0 && row < height && column >= 0 && column < width;
    patches[(at * out_height + y) * out_width + x] =
        inside ? images[((image * channels + c) * height + row) * width + column] : 0.0f;
}

// Winograd's F(2x2, 3x3) (Lavin and Gray 2016): a filter as 4 x 4 numbers, a matrix [filters, channels]
// of each. Items: channels, filters.
__kernel void conv_winograd_weights(GEOMETRY, __global const float *restrict weights,
                                    __global float *restrict spread) {
    const int c = get_global_id(0), f = get_global_id(1);
    __global const float *g = weights + (f * channels + c) * 9;
    float half_done[4][3];
    for (int j = 0; j < 3; ++j) {
        const float top = g[j], middle = g[3 + j], bottom = g[6 + j];
        half_done[0][j] = top;
        half_done[1][j] = 0.5f * (top + middle + bottom);
        half_done[2][j] = 0.5f * (top - middle + bottom);
        half_done[3][j] = bottom;
    }
    const int plane = filters * channels, place = f * channels + c;
    for (int i = 0; i < 4; ++i) {
        const float left = half_done[i][0], middle = half_done[i][1], right = half_done[i][2];
        spread[(4 * i + 0) * plane + place] = left;
        spread[(4 * i + 1) * plane + place] = 0.5f * (left + middle + right);
        spread[(4 * i + 2) * plane + place] = 0.5f * (left - middle + right);
        spread[(4 * i + 3) * plane + place] = right;
    }
}

// Tiles of 4 x 4 pixels, two apart: a matrix [channels, tiles of all images] of each number. Items:
// tiles of an image, channels, images.
__kernel void conv_winograd_images(GEOMETRY, __global const float *restrict images,
                                   __global float *restrict spread) {
    const int tile = get_global_id(0), c = get_global_id(1), image = get_global_id(2);
    const int across = (out_width + 1) / 2, tiles = across * ((out_height + 1) / 2);
    const int top = tile / across * 2 - padding, left = tile % across * 2 - padding;
    __global const float *plane = images + (image * channels + c) * height * width;
    float d[4][4], half_done[4][4];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int row = top + i, column = left + j;
            const int inside = row >= 0 && row < height && column >= 0 && column < width;
            d[i][j] = inside ? plane[row * width + column] : 0.0f;
        }
    for (int j = 0; j < 4; ++j) {
        half_done[0][j] = d[0][j] - d[2][j];
        half_done[1][j] = d[1][j] + d[2][j];
        half_done[2][j] = d[2][j] - d[1][j];
        half_done[3][j] = d[1][j] - d[3][j];
    }
    const int all = tiles * get_global_size(2), place = c * all + image * tiles + tile;
    const int plane_size = channels * all;
    for (int i = 0; i < 4; ++i) {
        __global float *row = spread + 4 * i * plane_size + place;
        row[0] = half_done[i][0] - half_done[i][2];
        row[plane_size] = half_done[i][1] + half_done[i][2];
        row[2 * plane_size] = half_done[i][2] - half_done[i][1];
        row[3 * plane_size] = half_done[i][1] - half_done[i][3];
    }
}

// Products of both, a matrix [filters, tiles of all images] of each of 16 numbers, as 2 x 2 pixels.
// Items: tiles of an image, filters, images.
__kernel void conv_winograd_out(GEOMETRY, __global const float *restrict products,
                                __global float *restrict out) {
    const int tile = get_global_id(0), f = get_global_id(1), image = get_global_id(2);
    const int across = (out_width + 1) / 2, tiles = across * ((out_height + 1) / 2);
    const int all = tiles * get_global_size(2), place = f * all + image * tiles + tile;
    const int plane_size = filters * all;
    float half_done[2][4];
    for (int j = 0; j < 4; ++j) {
        const float a = products[j * plane_size + place];
        const float b = products[(4 + j) * plane_size + place];
        const float c = products[(8 + j) * plane_size + place];
        const float d = products[(12 + j) * plane_size + place];
        half_done[0][j] = a + b + c;
        half_done[1][j] = b - c - d;
    }
    const int top = tile / across * 2, left = tile % across * 2;
    __global float *plane = out + (image * filters + f) * out_height * out_width;
    for (int i = 0; i < 2 && top + i < out_height; ++i) {
        __global float *row = plane + (top + i) * out_width + left;
        row[0] = half_done[i][0] + half_done[i][1] + half_done[i][2];
        if (left + 1 < out_width) row[1] = half_done[i][1] - half_done[i][2] - half_done[i][3];
    }
}
