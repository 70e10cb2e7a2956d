/* The programs of images.lathe in plain C. Sizes are macros. */
#include <math.h>
#include <string.h>

#ifdef KERNEL_sobel
void sobel(const float image[restrict H][W], float steep[restrict H][W]) {
    memset(steep, 0, sizeof(float) * H * W);
    for (int y = 1; y < H - 1; y++)
        for (int x = 1; x < W - 1; x++) {
            const float across = image[y - 1][x + 1] + 2 * image[y][x + 1] + image[y + 1][x + 1] - image[y - 1][x - 1]
                - 2 * image[y][x - 1] - image[y + 1][x - 1];
            const float down = image[y + 1][x - 1] + 2 * image[y + 1][x] + image[y + 1][x + 1] - image[y - 1][x - 1]
                - 2 * image[y - 1][x] - image[y - 1][x + 1];
            steep[y][x] = sqrtf(across * across + down * down);
        }
}
#endif

#ifdef KERNEL_bilateral
void bilateral(const float image[restrict H][W], float out[restrict H][W]) {
    memcpy(out, image, sizeof(float) * H * W);
    for (int y = 2; y < H - 2; y++)
        for (int x = 2; x < W - 2; x++) {
            float weight = 0, total = 0;
            for (int v = -2; v <= 2; v++)
                for (int u = -2; u <= 2; u++) {
                    const float off = image[y + v][x + u] - image[y][x];
                    const float w = expf(-(0.125f * (v * v + u * u) + 8 * off * off));
                    weight += w;
                    total += w * image[y + v][x + u];
                }
            out[y][x] = total / weight;
        }
}
#endif

#ifdef KERNEL_floyd_steinberg
void floyd_steinberg(float image[restrict H][W]) {
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            const float old = image[y][x], new = old < 0.5f ? 0 : 1, error = (old - new) / 16;
            image[y][x] = new;
            if (x + 1 < W) image[y][x + 1] += 7 * error;
            if (y + 1 < H) {
                if (x > 0) image[y + 1][x - 1] += 3 * error;
                image[y + 1][x] += 5 * error;
                if (x + 1 < W) image[y + 1][x + 1] += error;
            }
        }
}
#endif
